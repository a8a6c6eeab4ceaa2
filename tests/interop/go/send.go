package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// What was sent arrives with its keys, tag and properties.
func send(s *scene) {
	topic := s.topic()
	m := message(topic, "grüße").WithTag("tag-é").WithKeys([]string{"key1", "key2"})
	m.WithProperty("colour", `blue = "#00f"`)
	result := sent(s.producer(), m)
	var in inbox
	s.consume(topic, "*", in.take)
	in.awaitExactly([]string{"grüße"})
	got := in.all()[0]
	expectEqual("tag-é", got.GetTags(), "tag")
	expectEqual("key1 key2", strings.TrimSpace(got.GetKeys()), "keys")
	expectEqual(`blue = "#00f"`, got.GetProperty("colour"), "property")
	expectEqual(result.MsgID, got.MsgId, "message id")
	expectEqual(result.OffsetMsgID, got.OffsetMsgId, "offset id")
	expectEqual(result.QueueOffset, got.QueueOffset, "queue offset")
	expectEqual(result.MessageQueue.QueueId, got.Queue.QueueId, "queue")
	expectEqual("broker-a", result.MessageQueue.BrokerName, "broker name")
}

// The first send to an unknown topic makes it.
func autoCreate(s *scene) {
	bodies := sendMany(s.producer(), s.topicName(), "m", 10)
	s.awaitRoute(s.admin(), s.topicName())
	var in inbox
	s.consume(s.topicName(), "*", in.take)
	in.awaitExactly(bodies)
}

func async(s *scene) {
	topic := s.topic()
	p := s.producer()
	results := make(chan error, 50)
	var bodies []string
	for i := range cap(results) {
		bodies = append(bodies, fmt.Sprintf("m%d", i))
		must(p.SendAsync(context.Background(), func(_ context.Context, r *primitive.SendResult, err error) {
			if err == nil && r.Status != primitive.SendOK {
				err = fmt.Errorf("status %d", r.Status)
			}
			results <- err
		}, message(topic, bodies[i])))
	}
	for range bodies {
		select {
		case err := <-results:
			must(err)
		case <-time.After(deadline):
			panic("an asynchronous send has no answer")
		}
	}
	var in inbox
	s.consume(topic, "*", in.take)
	in.awaitExactly(bodies)
}

func oneway(s *scene) {
	topic := s.topic()
	p := s.producer()
	var bodies []string
	for i := range 30 {
		bodies = append(bodies, fmt.Sprintf("m%d", i))
		must(p.SendOneWay(context.Background(), message(topic, bodies[i])))
	}
	var in inbox
	s.consume(topic, "*", in.take)
	in.awaitExactly(bodies)
}

// A batch is stored as single messages, in order, in one queue, each with an id.
func batch(s *scene) {
	topic := s.topic()
	var messages []*primitive.Message
	var bodies []string
	for i := range 40 {
		bodies = append(bodies, fmt.Sprintf("m%d", i))
		m := message(topic, bodies[i]).WithTag(fmt.Sprintf("t%d", i%2)).WithKeys([]string{fmt.Sprintf("k%d", i)})
		messages = append(messages, m)
	}
	result := sent(s.producer(), messages...)
	expectEqual(40, len(strings.Split(result.OffsetMsgID, ",")), "offset ids")
	var in inbox
	s.consume(topic, "*", in.take)
	in.awaitExactly(bodies)
	for _, got := range in.all() {
		number := strings.TrimPrefix(string(got.Body), "m")
		expectEqual("k"+number, strings.TrimSpace(got.GetKeys()), "keys")
		expectEqual(fmt.Sprint(got.QueueOffset-result.QueueOffset), number, "queue offset")
		expectEqual(result.MessageQueue.QueueId, got.Queue.QueueId, "queue")
	}
}

// The producer's choice of queue is kept, and offsets in a queue follow each other.
func ordered(s *scene) {
	topic := s.topic()
	p := s.producer(manual())
	for i := range 40 {
		queue := i % queues
		result := sent(p, toQueue(message(topic, fmt.Sprintf("m%d", i)), topic, queue))
		expectEqual(queue, result.MessageQueue.QueueId, "queue")
		expectEqual(int64(i/queues), result.QueueOffset, "queue offset")
	}
}

// Nothing of a delay level arrives before its time: the levels are set to 1 s, 2 s, ...
func delayed(s *scene) {
	topic := s.topic()
	p := s.producer()
	var in inbox
	s.consume(topic, "*", in.take)
	for level := range 3 {
		m := message(topic, fmt.Sprintf("level%d", level))
		sent(p, m.WithDelayTimeLevel(level))
	}
	in.awaitExactly([]string{"level0", "level1", "level2"})
	for _, got := range in.all() {
		seconds := int64(got.Body[5] - '0')
		waited := got.StoreTimestamp - got.BornTimestamp
		expect(waited >= seconds*1000-50, "level %d came after %d ms", seconds, waited)
		expectEqual(topic, got.Topic, "topic")
	}
}

// Bodies above 4 KiB travel and are stored compressed; the consumer gets them whole.
func big(s *scene) {
	topic := s.topic()
	p := s.producer()
	text := bytes.Repeat([]byte("abcdefghijklmnopqrstuvw"), 50_000)
	noise := make([]byte, 3_000_000)
	rand.New(rand.NewSource(1)).Read(noise)
	sent(p, primitive.NewMessage(topic, text).WithTag("text"))
	sent(p, primitive.NewMessage(topic, noise).WithTag("noise"))
	var in inbox
	s.consume(topic, "*", in.take)
	await("big messages", func() bool { return len(in.all()) >= 2 })
	expectEqual(2, len(in.all()), "messages")
	for _, got := range in.all() {
		want := noise
		if got.GetTags() == "text" {
			want = text
			expect(got.StoreSize < 100_000, "stored %d bytes", got.StoreSize)
		}
		expect(bytes.Equal(want, got.Body), "body of %s", got.GetTags())
	}
}
