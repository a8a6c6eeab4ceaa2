package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// A consumer that waits gets each of many messages once.
func push(s *scene) {
	topic := s.topic()
	var in inbox
	s.consume(topic, "*", in.take)
	in.awaitExactly(sendMany(s.producer(), topic, "m", 200))
}

// Each key's messages come in the order sent, although one is first refused.
func orderly(s *scene) {
	topic := s.topic()
	var in inbox
	var refused atomic.Bool
	s.consume(topic, "*", func(_ context.Context, batch ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		if string(batch[0].Body) == "key1-7" && refused.CompareAndSwap(false, true) {
			return consumer.SuspendCurrentQueueAMoment, nil
		}
		in.add(batch...)
		return consumer.ConsumeSuccess, nil
	}, consumer.WithConsumerOrder(true))
	p := s.producer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	var bodies []string
	for i := range 20 {
		for key := range 6 {
			body := fmt.Sprintf("key%d-%d", key, i)
			bodies = append(bodies, body)
			sent(p, message(topic, body).WithShardingKey(fmt.Sprintf("key%d", key)))
		}
	}
	in.awaitExactly(bodies)
	expect(refused.Load(), "nothing was refused")
	next := map[string]int{}
	for _, body := range in.bodies() {
		key := body[:4]
		expectEqual(fmt.Sprintf("%s-%d", key, next[key]), body, "order")
		next[key]++
	}
}

func tags(s *scene) {
	topic := s.topic()
	p := s.producer(manual())
	for i := range 30 {
		m := message(topic, fmt.Sprintf("m%d", i)).WithTag(string("ABC"[i%3]))
		sent(p, toQueue(m, topic, i/3%queues))
	}
	// When the last of each queue arrives, all before it have arrived.
	for queue := range queues {
		sent(p, toQueue(message(topic, "end").WithTag("C"), topic, queue))
	}
	var in inbox
	s.consume(topic, "A || C", in.take)
	await("the last of each queue", func() bool { return in.count("end") == queues })
	expectEqual(20+queues, len(in.all()), "messages")
	for _, got := range in.all() {
		expect(got.GetTags() != "B", "got a B")
	}
}

// SQL92, evaluated at the broker.
func sql(s *scene) {
	topic := s.topic()
	p := s.producer(manual())
	for i := range 20 {
		m := message(topic, fmt.Sprintf("m%d", i)).WithTag(string("AB"[i%2]))
		m.WithProperty("n", fmt.Sprint(i))
		sent(p, toQueue(m, topic, i%queues))
	}
	for queue := range queues {
		m := message(topic, "end")
		m.WithProperty("last", "true")
		sent(p, toQueue(m, topic, queue))
	}
	var in inbox
	selector := consumer.MessageSelector{
		Type:       consumer.SQL92,
		Expression: "(TAGS = 'A' AND n BETWEEN 3 AND 14) OR last = TRUE",
	}
	s.consumeSelected(s.group(), topic, selector, in.take)
	await("the last of each queue", func() bool { return in.count("end") == queues })
	numbers := slices.DeleteFunc(in.bodies(), func(body string) bool { return body == "end" })
	slices.Sort(numbers)
	expectEqual(fmt.Sprint([]string{"m10", "m12", "m14", "m4", "m6", "m8"}), fmt.Sprint(numbers), "bodies")
}

// A queue is read from any offset.
func pull(s *scene) {
	topic := s.topic()
	p := s.producer(manual())
	var bodies []string
	for i := range 50 {
		bodies = append(bodies, fmt.Sprintf("m%d", i))
		sent(p, toQueue(message(topic, bodies[i]), topic, 1))
	}
	c := s.pullConsumer()
	queue := &primitive.MessageQueue{Topic: topic, BrokerName: "broker-a", QueueId: 1}
	must(c.Assign(topic, []*primitive.MessageQueue{queue}))
	must(c.Start())
	for _, from := range []int{0, 37} {
		var in inbox
		for offset := int64(from); offset < 50; {
			result, err := c.PullFrom(context.Background(), queue, offset, 16)
			must(err)
			expectEqual(primitive.PullFound, result.Status, "status")
			in.add(result.GetMessageExts()...)
			offset = result.NextBeginOffset
		}
		expect(slices.Equal(bodies[from:], in.bodies()), "from %d: got %v", from, in.bodies())
	}
	outside, err := c.PullFrom(context.Background(), queue, 1000, 16)
	must(err)
	expectEqual(primitive.PullOffsetIllegal, outside.Status, "status past the end")
}

// A pull consumer that shares the topic's queues, message by message acknowledged.
func poll(s *scene) {
	topic := s.topic()
	c := s.pullConsumer()
	must(c.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}))
	must(c.Start())
	bodies := sendMany(s.producer(), topic, "m", 60)
	var in inbox
	await("messages", func() bool {
		batch, err := c.Poll(context.Background(), 500*time.Millisecond)
		if err == nil {
			in.add(batch.GetMsgList()...)
			c.ACK(context.Background(), batch, consumer.ConsumeSuccess)
		}
		return len(in.missing(bodies)) == 0
	})
	in.awaitExactly(bodies)
}

// The offset of a time, as brokers find it by the messages' store times.
func queryTime(s *scene) {
	topic := s.topic()
	p := s.producer(manual())
	for i := range 5 {
		sent(p, toQueue(message(topic, fmt.Sprintf("m%d", i)), topic, 0))
	}
	c := s.pullConsumer()
	queue := &primitive.MessageQueue{Topic: topic, BrokerName: "broker-a", QueueId: 0}
	must(c.Assign(topic, []*primitive.MessageQueue{queue}))
	must(c.Start())
	offset, err := c.OffsetForTimestamp(queue, 1)
	must(err)
	expectEqual(int64(0), offset, "offset of the first message")
}
