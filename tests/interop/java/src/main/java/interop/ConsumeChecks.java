package interop;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The ways to consume. */
final class ConsumeChecks {
    private ConsumeChecks() {}

    static void addTo(Map<String, Driver.Check> checks) {
        checks.put("push", ConsumeChecks::push);
        checks.put("orderly", ConsumeChecks::orderly);
        checks.put("tags", ConsumeChecks::tags);
        checks.put("sql", ConsumeChecks::sql);
        checks.put("sql-pull", ConsumeChecks::sqlPull);
        checks.put("pull", ConsumeChecks::pull);
        checks.put("lite-pull", ConsumeChecks::litePull);
        checks.put("lite-pull-seek", ConsumeChecks::litePullSeek);
    }

    /** A consumer that waits gets each of many messages once, whatever the queue. */
    private static void push(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQPushConsumer consumer = scene.pushConsumer();
        consumer.subscribe(topic, "*");
        Inbox inbox = new Inbox().concurrently(consumer);
        consumer.start();
        DefaultMQProducer producer = scene.producer();
        inbox.awaitExactly(Scene.sendMany(producer, topic, "m", 200));
        Set<Integer> queues = new HashSet<>();
        inbox.all().forEach(message -> queues.add(message.getQueueId()));
        Scene.expectEqual(Scene.QUEUES, queues.size(), "queues used");
    }

    /** Each key's messages come in the order sent, although one is first refused. */
    private static void orderly(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQPushConsumer consumer = scene.pushConsumer();
        consumer.subscribe(topic, "*");
        Inbox inbox = new Inbox();
        AtomicBoolean refused = new AtomicBoolean();
        consumer.registerMessageListener((MessageListenerOrderly) (batch, context) -> {
            if (Inbox.body(batch.get(0)).equals("key1-7") && refused.compareAndSet(false, true)) {
                context.setSuspendCurrentQueueTimeMillis(100);
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            inbox.add(batch);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = scene.producer();
        List<String> bodies = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            for (int key = 0; key < 6; key++) {
                bodies.add("key" + key + "-" + i);
                Scene.sent(producer.send(Scene.message(topic, "key" + key + "-" + i),
                    (queues, m, k) -> queues.get((int) k % queues.size()), key));
            }
        }
        inbox.awaitExactly(bodies);
        Scene.expect(refused.get(), "nothing was refused");
        Map<String, Integer> next = new HashMap<>();
        for (String body : inbox.bodies()) {
            String[] parts = body.split("-");
            Scene.expectEqual(next.merge(parts[0], 1, Integer::sum) - 1, Integer.valueOf(parts[1]), parts[0]);
        }
    }

    private static void tags(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        for (int i = 0; i < 30; i++) {
            String tag = List.of("A", "B", "C").get(i % 3);
            Scene.sent(producer.send(new Message(topic, tag, (tag + i).getBytes())));
        }
        Scene.sendToEachQueue(producer, topic, "C", "end");
        DefaultMQPushConsumer consumer = scene.pushConsumer();
        consumer.subscribe(topic, "A || C");
        Inbox inbox = new Inbox().concurrently(consumer);
        consumer.start();
        Scene.await("the last of each queue", () -> inbox.count("end") == Scene.QUEUES);
        Scene.expectEqual(20 + Scene.QUEUES, inbox.all().size(), "messages");
        for (MessageExt message : inbox.all()) {
            Scene.expect(!message.getTags().equals("B"), "got a B");
        }
    }

    /** SQL92, evaluated at the broker; a consumer with a broken expression does not start. */
    private static void sql(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQPushConsumer consumer = scene.pushConsumer();
        consumer.subscribe(topic, MessageSelector.bySql(
            "(TAGS IS NOT NULL AND TAGS IN ('A', 'end')) AND (n BETWEEN 3 AND 14 OR last = TRUE) -- a comment\n"));
        Inbox inbox = new Inbox().concurrently(consumer);
        consumer.start();
        DefaultMQProducer producer = scene.producer();
        sendNumbered(producer, topic);
        for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) {
            Message end = new Message(topic, "end", "end".getBytes());
            end.putUserProperty("last", "true");
            Scene.sent(producer.send(end, queue));
        }
        Scene.await("the last of each queue", () -> inbox.count("end") == Scene.QUEUES);
        List<String> numbers = inbox.bodies();
        numbers.removeIf(body -> body.equals("end"));
        numbers.sort(null);
        Scene.expectEqual(List.of("m10", "m12", "m14", "m4", "m6", "m8"), numbers, "bodies");

        DefaultMQPushConsumer broken = scene.pushConsumer();
        broken.setConsumerGroup(scene.group() + "_broken");
        broken.subscribe(topic, MessageSelector.bySql("n >"));
        new Inbox().concurrently(broken);
        try {
            broken.start();
            throw new AssertionError("a broken expression was taken");
        } catch (MQClientException refused) {
            Scene.expectEqual(23, refused.getResponseCode(), "code");
        }
    }

    /** Messages m0 to m19 with their number as a property; even ones have tag A. */
    private static void sendNumbered(DefaultMQProducer producer, String topic) throws Exception {
        for (int i = 0; i < 20; i++) {
            Message message = new Message(topic, i % 2 == 0 ? "A" : "B", ("m" + i).getBytes());
            message.putUserProperty("n", String.valueOf(i));
            Scene.sent(producer.send(message));
        }
    }

    /** Pulls that bring their expression along. */
    @SuppressWarnings("deprecation")
    private static void sqlPull(Scene scene) throws Exception {
        String topic = scene.topic();
        sendNumbered(scene.producer(), topic);
        DefaultMQPullConsumer consumer = scene.pullConsumer();
        consumer.setRegisterTopics(Set.of(topic));
        consumer.start();
        MessageSelector selector = MessageSelector.bySql("n > 16 AND TAGS <> 'A'");
        Scene.await("the broker's version, which comes with a heartbeat", () -> {
            try {
                consumer.pull(consumer.fetchSubscribeMessageQueues(topic).iterator().next(), selector, 0, 1);
                return true;
            } catch (MQClientException unknown) {
                return false;
            }
        });
        Inbox inbox = new Inbox();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            for (long offset = 0; offset < consumer.maxOffset(queue); ) {
                PullResult result = consumer.pull(queue, selector, offset, 32);
                if (result.getPullStatus() == PullStatus.FOUND) {
                    inbox.add(result.getMsgFoundList());
                }
                offset = result.getNextBeginOffset();
            }
        }
        inbox.awaitExactly(List.of("m17", "m19"));
    }

    /** The old pull client: explicit offsets, tags, an empty queue, an offset out of range. */
    @SuppressWarnings("deprecation")
    private static void pull(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        List<String> bodies = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            bodies.add("m" + i);
            Message message = new Message(topic, i % 2 == 0 ? "even" : "odd", bodies.get(i).getBytes());
            Scene.sent(producer.send(message, (queues, m, k) -> queues.get(1), 0));
        }
        DefaultMQPullConsumer consumer = scene.pullConsumer();
        consumer.start();
        Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(topic);
        Scene.expectEqual(Scene.QUEUES, queues.size(), "queues");
        for (MessageQueue queue : queues) {
            long wanted = queue.getQueueId() == 1 ? 50 : 0;
            Scene.expectEqual(0L, consumer.minOffset(queue), "minimum offset");
            Scene.expectEqual(wanted, consumer.maxOffset(queue), "maximum offset");
            if (wanted == 0) {
                PullResult empty = consumer.pull(queue, "*", 0, 10);
                Scene.expectEqual(PullStatus.NO_NEW_MSG, empty.getPullStatus(), "status of an empty queue");
                continue;
            }
            Inbox inbox = new Inbox();
            for (long offset = 0; offset < 50; ) {
                PullResult result = consumer.pullBlockIfNotFound(queue, "*", offset, 16);
                Scene.expectEqual(PullStatus.FOUND, result.getPullStatus(), "status");
                inbox.add(result.getMsgFoundList());
                offset = result.getNextBeginOffset();
            }
            Scene.expectEqual(bodies, inbox.bodies(), "bodies");
            PullResult odd = consumer.pull(queue, "odd", 0, 32);
            Scene.expectEqual(PullStatus.FOUND, odd.getPullStatus(), "status of a pull by tag");
            odd.getMsgFoundList().forEach(message -> Scene.expectEqual("odd", message.getTags(), "tag"));
            PullResult none = consumer.pull(queue, "nothing", 0, 32);
            Scene.expectEqual(PullStatus.NO_MATCHED_MSG, none.getPullStatus(), "status of an absent tag");
            PullResult outside = consumer.pull(queue, "*", 1000, 32);
            Scene.expectEqual(PullStatus.OFFSET_ILLEGAL, outside.getPullStatus(), "status past the end");
            Scene.expectEqual(50L, outside.getNextBeginOffset(), "corrected offset");
            consumer.updateConsumeOffset(queue, 30);
            consumer.getDefaultMQPullConsumerImpl().persistConsumerOffset();
        }
    }

    private static void litePull(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultLitePullConsumer consumer = scene.litePullConsumer();
        consumer.subscribe(topic, "*");
        consumer.start();
        List<String> bodies = Scene.sendMany(scene.producer(), topic, "m", 60);
        Inbox inbox = new Inbox();
        Scene.await("messages", () -> {
            inbox.add(consumer.poll(200));
            return inbox.distinct().size() == bodies.size();
        });
        inbox.awaitExactly(bodies);
        consumer.commitSync();
    }

    /** A queue that is assigned by hand can be read again from any offset or time. */
    private static void litePullSeek(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        MessageQueue queue = producer.fetchPublishMessageQueues(topic).get(2);
        for (int i = 0; i < 20; i++) {
            Scene.sent(producer.send(Scene.message(topic, "m" + i), queue));
        }
        DefaultLitePullConsumer consumer = scene.litePullConsumer();
        consumer.setAutoCommit(false);
        consumer.start();
        MessageQueue found = consumer.fetchMessageQueues(topic).stream()
            .filter(candidate -> candidate.getQueueId() == queue.getQueueId()).findFirst().get();
        consumer.assign(List.of(found));
        for (int from : new int[] {15, 3}) {
            consumer.seek(found, from);
            Inbox inbox = new Inbox();
            List<String> wanted = new ArrayList<>();
            for (int i = from; i < 20; i++) {
                wanted.add("m" + i);
            }
            Scene.await("messages from " + from, () -> {
                inbox.add(consumer.poll(200));
                return inbox.bodies().containsAll(wanted);
            });
            // What a pull brings that was on its way at the time of the seek, this client hands out as well.
            List<String> bodies = new ArrayList<>(inbox.bodies());
            bodies.retainAll(wanted);
            Scene.expectEqual(wanted, bodies, "bodies from " + from);
        }
        Scene.expectEqual(0L, consumer.offsetForTimestamp(found, 0L), "offset at the beginning of time");
        long tomorrow = System.currentTimeMillis() + 86_400_000;
        Scene.expect(consumer.offsetForTimestamp(found, tomorrow) >= 19L, "offset of tomorrow");
    }
}
