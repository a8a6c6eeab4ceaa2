package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	queues   = 4
	deadline = 90 * time.Second
)

// A scene has the names and clients of one check and shuts the clients down.
type scene struct {
	prefix    string
	nameserv  primitive.NamesrvAddr
	instances int
	closers   []func()
}

func newScene(driver, check string) *scene {
	// The two halves of a check that spans a restart share their names.
	shared := strings.TrimSuffix(strings.TrimSuffix(check, "-before"), "-after")
	prefix := os.Getenv("INTEROP_RUN") + "_" + driver + "_" + shared
	prefix = regexp.MustCompile("[^A-Za-z0-9_-]").ReplaceAllString(prefix, "-")
	return &scene{prefix: prefix, nameserv: primitive.NamesrvAddr{os.Getenv("NAMESRV_ADDR")}}
}

func (s *scene) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
}

func (s *scene) onClose(shutdown func() error) {
	s.closers = append(s.closers, func() { _ = shutdown() })
}

func (s *scene) topicName() string { return "T_" + s.prefix }

func (s *scene) group() string { return "G_" + s.prefix }

func (s *scene) instance() string {
	s.instances++
	return fmt.Sprintf("%s_%d", s.prefix, s.instances)
}

func (s *scene) admin() admin.Admin {
	a, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver(s.nameserv)))
	must(err)
	s.onClose(a.Close)
	return a
}

// topic makes a topic of four queues and waits until the NameServer knows it.
func (s *scene) topic() string { return s.makeTopic(s.topicName()) }

func (s *scene) makeTopic(name string) string {
	a := s.admin()
	must(a.CreateTopic(context.Background(),
		admin.WithTopicCreate(name),
		admin.WithBrokerAddrCreate(os.Getenv("BROKER_ADDR")),
		admin.WithReadQueueNums(queues),
		admin.WithWriteQueueNums(queues)))
	s.awaitRoute(a, name)
	return name
}

func (s *scene) awaitRoute(a admin.Admin, topic string) []*primitive.MessageQueue {
	var found []*primitive.MessageQueue
	await("a route of "+topic, func() bool {
		var err error
		found, err = a.FetchPublishMessageQueues(context.Background(), topic)
		return err == nil && len(found) > 0
	})
	return found
}

func (s *scene) producer(options ...producer.Option) rocketmq.Producer {
	options = append([]producer.Option{
		producer.WithNameServer(s.nameserv),
		producer.WithGroupName("P_" + s.prefix),
		producer.WithInstanceName(s.instance()),
		producer.WithSendMsgTimeout(20 * time.Second),
	}, options...)
	p, err := rocketmq.NewProducer(options...)
	must(err)
	must(p.Start())
	s.onClose(p.Shutdown)
	return p
}

type handler func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// consume starts a push consumer of the check's group, from the first offset on.
func (s *scene) consume(topic, tags string, handle handler, options ...consumer.Option) rocketmq.PushConsumer {
	return s.consumeAs(s.group(), topic, tags, handle, options...)
}

func (s *scene) consumeAs(
	group, topic, tags string, handle handler, options ...consumer.Option,
) rocketmq.PushConsumer {
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: tags}
	return s.consumeSelected(group, topic, selector, handle, options...)
}

func (s *scene) consumeSelected(
	group, topic string, selector consumer.MessageSelector, handle handler, options ...consumer.Option,
) rocketmq.PushConsumer {
	options = append([]consumer.Option{
		consumer.WithNameServer(s.nameserv),
		consumer.WithGroupName(group),
		consumer.WithInstance(s.instance()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, options...)
	c, err := rocketmq.NewPushConsumer(options...)
	must(err)
	must(c.Subscribe(topic, selector, handle))
	must(c.Start())
	s.onClose(c.Shutdown)
	return c
}

func (s *scene) pullConsumer() rocketmq.PullConsumer {
	c, err := rocketmq.NewPullConsumer(
		consumer.WithNameServer(s.nameserv),
		consumer.WithGroupName(s.group()),
		consumer.WithInstance(s.instance()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	must(err)
	s.onClose(c.Shutdown)
	return c
}

func message(topic, body string) *primitive.Message {
	return primitive.NewMessage(topic, []byte(body))
}

// sent sends and insists on SEND_OK.
func sent(p rocketmq.Producer, messages ...*primitive.Message) *primitive.SendResult {
	result, err := p.SendSync(context.Background(), messages...)
	must(err)
	expect(result.Status == primitive.SendOK, "status %d", result.Status)
	// The client gives a batch no id of its own.
	expect(result.MsgID != "" || len(messages) > 1, "no message id")
	return result
}

// sendMany sends name0, name1, ... and returns these bodies.
func sendMany(p rocketmq.Producer, topic, name string, count int) []string {
	bodies := make([]string, count)
	for i := range bodies {
		bodies[i] = fmt.Sprintf("%s%d", name, i)
		sent(p, message(topic, bodies[i]))
	}
	return bodies
}

// toQueue picks a message's queue by hand; the producer needs the manual selector.
func toQueue(m *primitive.Message, topic string, queue int) *primitive.Message {
	m.Queue = &primitive.MessageQueue{Topic: topic, BrokerName: "broker-a", QueueId: queue}
	return m
}

func manual() producer.Option {
	return producer.WithQueueSelector(producer.NewManualQueueSelector())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(holds bool, format string, arguments ...any) {
	if !holds {
		panic(fmt.Sprintf(format, arguments...))
	}
}

func expectEqual[T comparable](want, got T, what string) {
	expect(want == got, "%s: expected %v, got %v", what, want, got)
}

func await(what string, condition func() bool) {
	end := time.Now().Add(deadline)
	for !condition() {
		expect(time.Now().Before(end), "waited %v for %s", deadline, what)
		time.Sleep(20 * time.Millisecond)
	}
}

// within polls a condition for a number of rounds of 20 ms and says whether it came true.
func within(rounds int, condition func() bool) bool {
	for range rounds {
		if condition() {
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return condition()
}
