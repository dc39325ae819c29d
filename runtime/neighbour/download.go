package neighbour

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
)

// Options of a Download. The zero values of the times are the defaults.
type Options struct {
	// Neighbours are the hosts to ask, with or without a port. A name stands for all its addresses.
	Neighbours []string
	// Self are the addresses at which this node offers its files, with their ports; none if it does not.
	Self []string
	// Announce is called with what this node has to do with the source, before it does that; nil is fine.
	Announce func(Source) error
	// Patience is how long a node waits for neighbours without a byte, 30 seconds by default, before it asks the source
	// all the same. The later a node comes in the order, the longer it waits, up to twice as long.
	Patience time.Duration
	// Stall is how long a neighbour may send nothing, 10 seconds by default.
	Stall time.Duration
	// Settle is how long a node intends to ask the source before it does, half a second by default: others that intend
	// it at the same time find out.
	Settle time.Duration
	// Dial connects to a neighbour; nil is a plain connection.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Note is called with why a neighbour is not asked any more; nil is fine.
	Note func(address string, why error)
}

// Download decides where the next bytes of a file come from. It is for one goroutine.
type Download struct {
	Options
	id   digest.Digest
	size int64
	ask  *asker

	me      self
	last    time.Time       // when the last byte came, or the next source was seen
	begun   time.Time       // when the last byte came, or the wait began
	awaited map[string]bool // neighbours that read from the source, and were waited for
	dropped map[string]bool
	strikes map[string]int
	gave    map[string]bool // in this round
	given   map[string]given
	rounds  int // that ended with another digest
	// intended and asking say what was announced about the source.
	intended, asking bool
	looked           time.Time
	resolved         time.Time
	names            []string
	seen             int64 // the most that a neighbour said it has
	rate             int64 // bytes a second that the last segment came with
	total            int64
}

// maxRounds is how often neighbours are believed: a fetch whose bytes have another digest begins anew.
const maxRounds = 3

// New returns the download of a file.
func New(id digest.Digest, size int64, o Options) *Download {
	o.Patience, o.Stall = or(o.Patience, 30*time.Second), or(o.Stall, 10*time.Second)
	o.Settle = or(o.Settle, 500*time.Millisecond)
	if o.Announce == nil {
		o.Announce = func(Source) error { return nil }
	}
	if o.Note == nil {
		o.Note = func(string, error) {}
	}
	d := &Download{
		Options: o, id: id, size: size, ask: newAsker(id, size, o.Stall, o.Dial), me: self{rank: lastRank},
		awaited: map[string]bool{}, dropped: map[string]bool{}, strikes: map[string]int{}, gave: map[string]bool{},
		given: map[string]given{},
	}
	for _, address := range o.Self {
		d.me.rank = min(d.me.rank, rankOf(address, id))
	}
	return d
}

// Bytes is how many bytes neighbours gave.
func (d *Download) Bytes() int64 { return d.total }

// Close ends the connections to neighbours.
func (d *Download) Close() { d.ask.client.CloseIdleConnections() }

// Refuse says that the file has another digest. Whoever gave a part of it is not asked again, and from now on the
// node is careful. It reports whether neighbours gave a part: then it is worth to begin anew.
func (d *Download) Refuse() (again bool) {
	again = len(d.gave) > 0
	for address := range d.gave {
		d.drop(address, errLies)
	}
	clear(d.gave)
	d.rounds++
	d.seen = 0
	d.me.careful, d.me.parent = true, ""
	return again
}

// pauses are between two looks at the neighbours: short at first, since all nodes of a site may begin together.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
)

// Open opens the file behind its first bytes at a neighbour. No reader and no error mean that the node asks the source.
// It waits for neighbours for a bounded time.
func (d *Download) Open(ctx context.Context, from int64) (io.ReadCloser, error) {
	if from != d.me.bytes || d.begun.IsZero() {
		d.begun = time.Now()
		d.last = d.begun
	}
	d.me.bytes = from
	if d.rounds >= maxRounds {
		return nil, d.Announce(Reads)
	}
	for pause, looks := firstPause, 1; ; pause, looks = min(2*pause, lastPause), looks+1 {
		if body, err := d.fromParent(ctx); body != nil || err != nil {
			return body, err
		}
		if err := d.resolve(ctx); err != nil {
			return nil, err
		}
		views := d.ask.views(ctx, d.asked(d.intended || looks > narrowLooks))
		d.looked = time.Now()
		for _, v := range candidates(d.me, views) {
			if v.uploads > int(time.Since(d.begun)/shareAfter) && v.address != d.me.parent {
				continue
			}
			if body, err := d.read(ctx, v); body != nil || err != nil {
				return body, err
			}
		}
		ask, err := d.decide(views)
		if ask || err != nil {
			return nil, err
		}
		if d.intended {
			pause = d.Settle
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// shareAfter is how long a node waits for a neighbour that sends nothing to anybody else, before it takes one with an
// upload; and so on. Where the links inside are no faster than that to the source, each node must send the file once.
const shareAfter = 2 * time.Second

// growths bound how often what neighbours say they have keeps a node waiting: each time it is so much more of the file.
const growths = 100

// decide reports whether the node asks the source now.
func (d *Download) decide(views []view) (ask bool, err error) {
	for _, v := range views {
		if v.bytes >= d.seen+max(d.size/growths, 1) { // it goes on elsewhere
			d.seen, d.last, d.begun = v.bytes, time.Now(), time.Now()
		}
		if v.source == Reads && !d.awaited[v.address] {
			d.awaited[v.address] = true
			d.last = time.Now()
		}
	}
	patience := d.Patience + min(time.Duration(position(d.me, views))*d.Patience/10, d.Patience)
	may := mayAsk(d.me, views)
	if d.asking && may { // it goes on
		return true, nil
	}
	late := time.Since(d.last) > patience || time.Since(d.begun) > 4*d.Patience
	switch {
	case late || may && d.intended:
		d.intended, d.asking = false, true
		return true, d.Announce(Reads)
	case may:
		d.intended = true
		return false, d.Announce(Intends)
	}
	d.intended, d.asking = false, false
	return false, d.Announce(NoSource)
}

// lookAgain is how long a node reads from the same neighbour before it looks for a better one.
const lookAgain = 10 * time.Second

// fromParent reads on where the last bytes came from.
func (d *Download) fromParent(ctx context.Context) (io.ReadCloser, error) {
	if d.me.parent == "" || d.dropped[d.me.parent] || time.Since(d.looked) > lookAgain {
		return nil, nil
	}
	v, err := d.ask.view(ctx, d.me.parent)
	if err != nil || len(candidates(d.me, []view{v})) == 0 { // else two nodes could wait for each other
		d.looked = time.Time{}
		return nil, ctx.Err()
	}
	return d.read(ctx, v)
}

// segments are what is asked for at once: so much that it takes as long as lookAgain.
const (
	firstSegment = 4 << 20
	minSegment   = 1 << 20
	maxSegment   = 64 << 20
)

// read asks a neighbour. There is no reader and no error if it does not give anything.
func (d *Download) read(ctx context.Context, v view) (io.ReadCloser, error) {
	length := int64(firstSegment)
	if d.rate > 0 {
		length = min(max(d.rate*int64(lookAgain/time.Second), minSegment), maxSegment)
	}
	uploads := v.uploads
	if v.address == d.me.parent {
		uploads = -1
	}
	from, began := d.me.bytes, time.Now()
	to := min(from+length, d.size)
	in, err := d.ask.get(ctx, v.address, from, to, uploads)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		d.fail(v.address, err)
		return nil, nil
	}
	if err := d.Announce(NoSource); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	d.intended, d.asking = false, false
	return &segment{ReadCloser: in, d: d, from: v, start: from, length: to - from, began: began}, nil
}

// segment counts what a neighbour gives.
type segment struct {
	io.ReadCloser
	d     *Download
	from  view
	began time.Time
	// start is the first byte, length how many were asked for, and bytes how many came.
	start, length, bytes int64
}

// A neighbour that gives less than minRate for slowTime is not asked again; nor is one that says it has far more than
// it gives, with sixteen times that rate.
const (
	minRate  = 8 << 10 // bytes a second
	slowTime = 30 * time.Second
)

func (s *segment) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.bytes += int64(n)
	if n > 0 {
		s.d.me.parent, s.d.gave[s.from.address] = s.from.address, true
	}
	least := int64(minRate)
	if s.from.bytes > s.start+s.bytes+minSegment {
		least *= 16
	}
	if took := time.Since(s.began); took > slowTime && s.bytes < least*int64(took/time.Second) {
		err = errSlow
	}
	if errors.Is(err, errSlow) {
		s.d.drop(s.from.address, err)
	}
	return n, err
}

func (s *segment) Close() error {
	s.d.total += s.bytes
	if took := time.Since(s.began); took > 0 && s.bytes > 0 {
		s.d.rate = int64(float64(s.bytes) / took.Seconds())
	}
	if s.bytes < min(s.length, s.from.bytes-s.start) || s.bytes == 0 {
		s.d.fail(s.from.address, errEnds)
	} else {
		delete(s.d.strikes, s.from.address)
	}
	s.d.judge(s.from.address, time.Since(s.began), s.bytes)
	return s.ReadCloser.Close()
}

// given is what a neighbour gave in some time.
type given struct {
	bytes int64
	took  time.Duration
}

// judge does not ask a neighbour again whose segments are small and slow.
func (d *Download) judge(address string, took time.Duration, bytes int64) {
	all := d.given[address]
	all.bytes, all.took = all.bytes+bytes, all.took+took
	if all.took > slowTime {
		if all.bytes < minRate*int64(all.took/time.Second) {
			d.drop(address, errSlow)
		}
		all = given{}
	}
	d.given[address] = all
}

// maxStrikes is how often in a row a neighbour may give less than it said it has.
const maxStrikes = 3

// fail notes that a neighbour gave nothing, or little.
func (d *Download) fail(address string, err error) {
	if d.me.parent == address {
		d.me.parent = ""
	}
	if errors.Is(err, errBusy) {
		return
	}
	d.strikes[address]++
	if errors.Is(err, errLies) || errors.Is(err, errSlow) || d.strikes[address] >= maxStrikes {
		d.drop(address, err)
	}
}

func (d *Download) drop(address string, why error) {
	if !d.dropped[address] {
		d.dropped[address] = true
		d.Note(address, why)
	}
	if d.me.parent == address {
		d.me.parent = ""
	}
}

// A node first asks those that are likely to have more: the first ones in the order, and those just before it. With
// a hundred nodes that ask each other, this is a quarter of the requests. It asks all of them before it asks the
// source, and when the likely ones have nothing.
const (
	narrowLooks = 2
	firstOnes   = 8
	justBefore  = 16
)

// asked are the addresses of neighbours that are asked now.
func (d *Download) asked(all bool) (addresses []string) {
	names := slices.DeleteFunc(slices.Clone(d.names), func(a string) bool { return d.dropped[a] })
	if all || len(names) <= firstOnes+justBefore {
		return names[:min(len(names), mostAsked)]
	}
	behind, _ := slices.BinarySearchFunc(names, d.me.rank, func(a string, rank uint64) int {
		return cmp.Compare(rankOf(a, d.id), rank)
	})
	before := max(behind-justBefore, firstOnes)
	addresses = append(addresses, names[:firstOnes]...)
	if before < behind {
		addresses = append(addresses, names[before:behind]...)
	}
	if d.me.parent != "" && !slices.Contains(addresses, d.me.parent) {
		addresses = append(addresses, d.me.parent)
	}
	return addresses
}
