package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// An inbox keeps what consumers got, in the order they got it.
type inbox struct {
	lock     sync.Mutex
	messages []*primitive.MessageExt
}

// take is a handler that accepts everything.
func (in *inbox) take(_ context.Context, batch ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	in.add(batch...)
	return consumer.ConsumeSuccess, nil
}

func (in *inbox) add(batch ...*primitive.MessageExt) {
	in.lock.Lock()
	defer in.lock.Unlock()
	in.messages = append(in.messages, batch...)
}

func (in *inbox) all() []*primitive.MessageExt {
	in.lock.Lock()
	defer in.lock.Unlock()
	return slices.Clone(in.messages)
}

func (in *inbox) bodies() []string {
	var bodies []string
	for _, m := range in.all() {
		bodies = append(bodies, string(m.Body))
	}
	return bodies
}

func (in *inbox) count(body string) int {
	n := 0
	for _, b := range in.bodies() {
		if b == body {
			n++
		}
	}
	return n
}

// missing returns those bodies that are not here.
func (in *inbox) missing(bodies []string) []string {
	here := map[string]bool{}
	for _, b := range in.bodies() {
		here[b] = true
	}
	var missing []string
	for _, b := range bodies {
		if !here[b] {
			missing = append(missing, b)
		}
	}
	return missing
}

// awaitExactly waits for these bodies, then insists that each came once and nothing else came.
func (in *inbox) awaitExactly(bodies []string) {
	func() {
		defer func() {
			if late := recover(); late != nil {
				missing := in.missing(bodies)
				panic(fmt.Sprintf("%v: %d of %d missing, such as %s", late, len(missing), len(bodies), missing[0]))
			}
		}()
		await("messages", func() bool { return len(in.missing(bodies)) == 0 })
	}()
	want, got := slices.Clone(bodies), in.bodies()
	slices.Sort(want)
	slices.Sort(got)
	expect(slices.Equal(want, got), "expected %d deliveries %v, got %d %v", len(want), want, len(got), got)
}
