package interop;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** What was sent to a broker of one make is served by a broker of the other, byte for byte and in its place. */
final class MigrationChecks {
    private static final int MESSAGES = 600;
    /** More than 4 MB in all, and so random that no client compresses them away. */
    private static final int BODY_BYTES = 8 << 10;
    /** The harness gives this level the time that a change of brokers takes. */
    private static final int LATE_LEVEL = 18;

    private MigrationChecks() {}

    static void addTo(Map<String, Driver.Check> checks) {
        checks.put("migrate-before", MigrationChecks::send);
        checks.put("migrate-after", MigrationChecks::readAll);
        checks.put("migrate-delayed-before", MigrationChecks::sendDelayed);
        checks.put("migrate-delayed-after", scene -> awaitOnly(scene, "late"));
        checks.put("migrate-timed-before", MigrationChecks::sendTimed);
        checks.put("migrate-timed-after", scene -> awaitOnly(scene, "late"));
    }

    private static void send(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        List<MessageQueue> queues = sorted(producer.fetchPublishMessageQueues(topic));
        for (int i = 0; i < MESSAGES; i++) {
            Message message = new Message(topic, "tag" + i % 3, "key" + i, body(i));
            message.putUserProperty("number", "n" + i);
            SendResult sent = Scene.sent(producer.send(message, queues.get(i % Scene.QUEUES)));
            Scene.expectEqual((long) i / Scene.QUEUES, sent.getQueueOffset(), "queue offset");
        }
    }

    /** Every queue from its first entry on, without a group's progress. */
    private static void readAll(Scene scene) throws Exception {
        DefaultMQPullConsumer consumer = scene.pullConsumer();
        consumer.start();
        List<MessageQueue> queues = sorted(consumer.fetchSubscribeMessageQueues(scene.topicName()));
        Scene.expectEqual(Scene.QUEUES, queues.size(), "queues");
        for (int queue = 0; queue < Scene.QUEUES; queue++) {
            List<MessageExt> got = read(consumer, queues.get(queue), MESSAGES / Scene.QUEUES);
            for (int n = 0; n < got.size(); n++) {
                int i = n * Scene.QUEUES + queue;
                MessageExt message = got.get(n);
                Scene.expectEqual((long) n, message.getQueueOffset(), "queue offset");
                Scene.expect(Arrays.equals(body(i), message.getBody()), "body of message " + i);
                Scene.expectEqual("tag" + i % 3, message.getTags(), "tag of message " + i);
                Scene.expectEqual("key" + i, message.getKeys(), "key of message " + i);
                Scene.expectEqual("n" + i, message.getUserProperty("number"), "property of message " + i);
            }
        }
    }

    private static List<MessageExt> read(DefaultMQPullConsumer consumer, MessageQueue queue, int count)
        throws Exception {
        List<MessageExt> got = new ArrayList<>();
        long[] next = {0};
        Scene.await(count + " messages of " + queue, () -> {
            PullResult result = consumer.pull(queue, "*", next[0], 32);
            if (result.getPullStatus() == PullStatus.FOUND) {
                got.addAll(result.getMsgFoundList());
                next[0] = result.getNextBeginOffset();
            }
            return got.size() >= count;
        });
        Scene.expectEqual(count, got.size(), "messages of " + queue);
        return got;
    }

    private static void sendDelayed(Scene scene) throws Exception {
        String topic = scene.topic();
        Message message = Scene.message(topic, "late");
        message.setDelayTimeLevel(LATE_LEVEL);
        Scene.sent(scene.producer().send(message));
    }

    /** One comes at once, and is consumed; the other one outlasts the change of brokers. */
    private static void sendTimed(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        DefaultMQPushConsumer consumer = scene.pushConsumer();
        consumer.subscribe(topic, "*");
        Inbox inbox = new Inbox().concurrently(consumer);
        consumer.start();
        Scene.sent(producer.send(timed(topic, "early", 2_000)));
        Scene.sent(producer.send(timed(topic, "late", 60_000)));
        inbox.awaitExactly(List.of("early"));
    }

    private static Message timed(String topic, String body, long millis) {
        Message message = Scene.message(topic, body);
        MessageAccessor.putProperty(message, "TIMER_DELIVER_MS", String.valueOf(System.currentTimeMillis() + millis));
        return message;
    }

    /** The broker of now delivers what the former one was asked to deliver later, and nothing that it has delivered. */
    private static void awaitOnly(Scene scene, String body) throws Exception {
        DefaultMQPushConsumer consumer = scene.pushConsumer();
        consumer.subscribe(scene.topicName(), "*");
        Inbox inbox = new Inbox().concurrently(consumer);
        consumer.start();
        inbox.awaitExactly(List.of(body));
    }

    private static List<MessageQueue> sorted(Collection<MessageQueue> queues) {
        List<MessageQueue> sorted = new ArrayList<>(queues);
        sorted.sort(Comparator.naturalOrder());
        return sorted;
    }

    private static byte[] body(int number) {
        byte[] body = new byte[BODY_BYTES];
        new Random(number).nextBytes(body);
        return body;
    }
}
