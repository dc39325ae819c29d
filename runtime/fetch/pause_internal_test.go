package fetch

import "time"

func init() { textPause = time.Millisecond }
