package progress

// Unit is what the total of a step counts.
type Unit int

// The units of steps.
const (
	Bytes Unit = iota
	Items      // images or tags
)

// Layer is how far a layer is that is being read.
type Layer struct {
	// Name has the image's and the start of the layer's digest.
	Name string
	// Done is what was read of Total, in bytes; a total that is not known is negative.
	Done, Total int64
	// Ended means that no more of it is read.
	Ended bool
}

// Hooks are called while the work is done; hooks that are nil are not called. Done, Layer and Retrying are called
// from several goroutines.
type Hooks struct {
	// Step is called when a step begins. total is 0 if it is not known.
	Step func(name string, total int64, unit Unit)
	// Done is called with the bytes or items that have been finished since the last call.
	Done func(n int)
	// Layer is called for each layer that is read, before and while a step of layers runs.
	Layer func(Layer)
	// Retrying is called with a line of text that says which request to a registry is repeated, and why.
	Retrying func(line string)
}

// Begin calls Step for a step that is measured in bytes.
func (h Hooks) Begin(name string, bytes int64) { h.step(name, bytes, Bytes) }

// Count calls Step for a step that is measured in items.
func (h Hooks) Count(name string, items int) { h.step(name, int64(items), Items) }

func (h Hooks) step(name string, total int64, unit Unit) {
	if h.Step != nil {
		h.Step(name, total, unit)
	}
}

// Add calls Done.
func (h Hooks) Add(n int) {
	if h.Done != nil {
		h.Done(n)
	}
}
