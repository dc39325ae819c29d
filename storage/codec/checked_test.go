package codec

import (
	"bytes"
	"testing"
)

// A frame that does not have the content is not used, and neither is one that is no frame.
func TestWrongFrames(t *testing.T) {
	content := bytes.Repeat([]byte("layer"), 100)
	block, err := NewZstdBlock(defaultLevel)
	if err != nil {
		t.Fatal(err)
	}
	b := block.(*checkedBlock)
	encode := b.encode
	for name, test := range map[string]struct {
		encode func(out, content []byte) []byte
		want   bool
	}{
		"the frame of the content": {encode, true},
		"of another content":       {func(out, _ []byte) []byte { return encode(out, bytes.ToUpper(content)) }, false},
		"of more":                  {func(out, _ []byte) []byte { return encode(out, append(content, 1)) }, false},
		"no frame":                 {func(out, _ []byte) []byte { return append(out, 1, 2, 3) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b.encode = test.encode
			if _, got := b.Compress(nil, content); got != test.want {
				t.Errorf("used %v, want %v", got, test.want)
			}
		})
	}
	b.encode = encode
	if _, got := b.Compress(nil, bytes.Repeat([]byte("pin "), largestBlock/4)); !got {
		t.Error("the frame of the largest block was not used")
	}
}
