// Command load is a load generator: it sends frames to a broker, again and again, and times the answers.
//
// It knows frames, not the protocol. A plan, the JSON file that is its argument, says for each client which frame to send,
// how often, and at which places of the answers to look. bench/comparison/plan.py writes plans and tells what their fields
// mean; bench/comparison/sender.py does the same as this program, for where there is no Go.
//
// It connects all clients, prints "ready", waits for a line, runs the plan, and prints what each group of clients has done
// as a line of JSON.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sort"
	"sync"
	"time"
)

// Reads of a client that is held back are of so many bytes.
const pieceBytes = 16 << 10

// Longer than any answer takes.
const patience = 2 * time.Minute

type fetching struct {
	OffsetAt     int  `json:"offset_at"`
	RecordsAt    int  `json:"records_at"`
	BatchBytes   int  `json:"batch_bytes"`
	BatchRecords int  `json:"batch_records"`
	Follows      bool `json:"follows"`
}

type clientPlan struct {
	Group       string    `json:"group"`
	Frame       string    `json:"frame"`
	InFlight    int       `json:"in_flight"`
	PerSecond   float64   `json:"per_second"`
	ErrorsAt    []int     `json:"errors_at"`
	RecordBytes int       `json:"record_bytes"`
	LimitBytes  int       `json:"limit_bytes"`
	ReadBytes   float64   `json:"read_bytes_per_second"`
	Fetching    *fetching `json:"fetching"`
	Pair        string    `json:"pair"`
}

type plan struct {
	Address string       `json:"address"`
	Seconds float64      `json:"seconds"`
	Clients []clientPlan `json:"clients"`
}

type outcome struct {
	Requests int     `json:"requests"`
	Bytes    int     `json:"bytes"`
	Seconds  float64 `json:"seconds"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Max      float64 `json:"max_ms"`
}

// pair holds when each record of a partition was sent, for the one who receives them in the same order.
type pair struct {
	lock sync.Mutex
	sent []time.Time
}

func (p *pair) add(at time.Time) {
	p.lock.Lock()
	p.sent = append(p.sent, at)
	p.lock.Unlock()
}

func (p *pair) at(number int) time.Time {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.sent[number]
}

type client struct {
	clientPlan
	conn     net.Conn
	in       *bufio.Reader
	request  []byte
	offset   int
	head     []byte
	pair     *pair
	begun    []time.Time // when the requests under way were sent
	received int         // batches that a follower has seen
	requests int
	bytes    int
	waits    []time.Duration
	ended    time.Time
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func (c *client) send(begun time.Time) {
	if f := c.Fetching; f != nil {
		binary.BigEndian.PutUint64(c.request[f.OffsetAt:], uint64(c.offset))
	} else if c.pair != nil {
		c.pair.add(begun)
	}
	c.begun = append(c.begun, begun)
	_, err := c.conn.Write(c.request)
	must(err)
}

// receive takes one answer.
func (c *client) receive() {
	must(c.conn.SetReadDeadline(time.Now().Add(patience)))
	var prefix [4]byte
	_, err := io.ReadFull(c.in, prefix[:])
	must(err)
	size := int(binary.BigEndian.Uint32(prefix[:]))
	head := c.head[:min(size, len(c.head))]
	_, err = io.ReadFull(c.in, head)
	must(err)
	c.skip(size - len(head))
	now := time.Now()
	for _, at := range c.ErrorsAt {
		if code := int16(binary.BigEndian.Uint16(head[at:])); code != 0 {
			must(fmt.Errorf("the broker answered a client of %q with error %d", c.Group, code))
		}
	}
	begun := c.begun[0]
	c.begun = append(c.begun[:0], c.begun[1:]...)
	c.requests++
	c.bytes += c.RecordBytes
	if c.Fetching == nil {
		c.waits = append(c.waits, now.Sub(begun))
	} else {
		c.take(int(int32(binary.BigEndian.Uint32(head[c.Fetching.RecordsAt:]))), begun, now)
	}
}

// skip reads the rest of an answer, at the pace of this client.
func (c *client) skip(size int) {
	for size > 0 {
		piece := size
		if c.ReadBytes > 0 {
			piece = min(size, pieceBytes)
			time.Sleep(time.Duration(float64(piece) / c.ReadBytes * float64(time.Second)))
			must(c.conn.SetReadDeadline(time.Now().Add(patience)))
		}
		_, err := c.in.Discard(piece)
		must(err)
		size -= piece
	}
}

// take notes so many bytes of records. All batches are of one size; the last one may be cut, and is asked for again.
func (c *client) take(size int, begun, now time.Time) {
	size = max(size, 0)
	batches := size / c.Fetching.BatchBytes
	c.bytes += size
	if c.pair == nil {
		c.waits = append(c.waits, now.Sub(begun))
	} else {
		for range batches {
			c.waits = append(c.waits, now.Sub(c.pair.at(c.received)))
			c.received++
		}
	}
	c.offset += batches * c.Fetching.BatchRecords
	if batches == 0 && !c.Fetching.Follows {
		c.offset = 0 // from the front again
	}
}

func (c *client) done(until time.Time) bool {
	return !time.Now().Before(until) || (c.LimitBytes > 0 && c.bytes >= c.LimitBytes)
}

func (c *client) run(started time.Time, seconds float64) {
	until := started.Add(time.Duration(seconds * float64(time.Second)))
	if c.PerSecond > 0 {
		c.paced(started, until)
	} else {
		for range c.InFlight {
			c.send(time.Now())
		}
		for len(c.begun) > 0 {
			c.receive()
			if !c.done(until) {
				c.send(time.Now())
			}
		}
	}
	c.ended = time.Now()
	c.conn.Close()
}

// paced sends when a request is due. One that was due before the answer to the last one came has waited since then.
func (c *client) paced(started, until time.Time) {
	interval := time.Duration(float64(time.Second) / c.PerSecond)
	for due := started.Add(interval); due.Before(until) && !c.done(until); due = due.Add(interval) {
		begun := due
		if early := time.Until(due); early > 0 {
			time.Sleep(early)
			begun = time.Now()
		}
		c.send(begun)
		c.receive()
	}
}

func read(path string) plan {
	text, err := os.ReadFile(path)
	must(err)
	var wanted plan
	must(json.Unmarshal(text, &wanted))
	return wanted
}

func connect(wanted plan) []*client {
	frames := map[string][]byte{}
	pairs := map[string]*pair{}
	var clients []*client
	for _, each := range wanted.Clients {
		if frames[each.Frame] == nil {
			frame, err := os.ReadFile(each.Frame)
			must(err)
			frames[each.Frame] = frame
		}
		conn, err := net.DialTimeout("tcp", wanted.Address, patience)
		must(err)
		c := &client{clientPlan: each, conn: conn, in: bufio.NewReaderSize(conn, 1<<17), request: frames[each.Frame]}
		c.head = make([]byte, 512)
		if each.ReadBytes > 0 {
			c.in = bufio.NewReaderSize(conn, pieceBytes)
		}
		if each.Fetching != nil { // it is patched
			c.request = append([]byte(nil), c.request...)
		}
		if each.Pair != "" {
			if pairs[each.Pair] == nil {
				pairs[each.Pair] = &pair{}
			}
			c.pair = pairs[each.Pair]
		}
		clients = append(clients, c)
	}
	return clients
}

// outcomes sums up what the clients of each group have done.
func outcomes(clients []*client, started time.Time) map[string]*outcome {
	all := map[string]*outcome{}
	waits := map[string][]float64{}
	for _, c := range clients {
		o := all[c.Group]
		if o == nil {
			o = &outcome{}
			all[c.Group] = o
		}
		o.Requests += c.requests
		o.Bytes += c.bytes
		o.Seconds = max(o.Seconds, c.ended.Sub(started).Seconds())
		for _, wait := range c.waits {
			waits[c.Group] = append(waits[c.Group], wait.Seconds()*1000)
		}
	}
	for group, times := range waits {
		sort.Float64s(times)
		o := all[group]
		o.P50, o.P99, o.Max = quantile(times, 0.5), quantile(times, 0.99), times[len(times)-1]
	}
	return all
}

func quantile(sorted []float64, share float64) float64 {
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

func main() {
	wanted := read(os.Args[1])
	clients := connect(wanted)
	fmt.Println("ready")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	must(err)
	started := time.Now()
	var running sync.WaitGroup
	for _, c := range clients {
		running.Add(1)
		go func(c *client) {
			defer running.Done()
			c.run(started, wanted.Seconds)
		}(c)
	}
	running.Wait()
	must(json.NewEncoder(os.Stdout).Encode(outcomes(clients, started)))
}
