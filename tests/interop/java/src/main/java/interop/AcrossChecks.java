package interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages of one make of client, consumed by another. README.md says what is sent. */
final class AcrossChecks {
    private static final int PLAIN = 10;
    private static final int IN_BATCH = 10;
    private static final int KEYS = 3;
    private static final int STEPS = 10;
    private static final int REFUSED = 4;

    private AcrossChecks() {}

    static void addTo(Map<String, Driver.Check> checks) {
        checks.put("across-send-after", AcrossChecks::send);
        checks.put("across-refuse-after", AcrossChecks::refuse);
        checks.put("across-consume-after", AcrossChecks::consume);
    }

    private static String topic(String kind) {
        return "X_" + System.getenv("INTEROP_ACROSS") + "_" + kind;
    }

    private static DefaultMQPushConsumer consumer(Scene scene, String kind) throws Exception {
        DefaultMQPushConsumer consumer = scene.pushConsumer();
        consumer.setConsumerGroup("XG_" + System.getenv("INTEROP_ACROSS") + "_" + kind);
        consumer.subscribe(topic(kind), "*");
        return consumer;
    }

    private static List<String> compressions() {
        return Arrays.asList(System.getenv("INTEROP_COMPRESS").split(","));
    }

    private static byte[] packedBody() {
        byte[] body = new byte[100_000];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) ('a' + i % 23);
        }
        return body;
    }

    private static void send(Scene scene) throws Exception {
        DefaultMQProducer producer = scene.producer();
        String topic = scene.topic(topic("all"));
        for (int i = 0; i < PLAIN; i++) {
            Message message = new Message(topic, "plain", "k" + i, ("plain" + i).getBytes());
            message.putUserProperty("colour", "blue");
            Scene.sent(producer.send(message));
        }
        for (String kind : compressions()) {
            // Read when a producer is made; its setter does not reach the compressor in version 4.
            System.setProperty("rocketmq.message.compressType", kind.toUpperCase());
            DefaultMQProducer packing = scene.producer("_" + kind);
            Scene.sent(packing.send(new Message(topic, "packed", kind, packedBody())));
        }
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < IN_BATCH; i++) {
            batch.add(new Message(topic, "batch", ("batch" + i).getBytes()));
        }
        Scene.sent(producer.send(batch));
        for (int step = 0; step < STEPS; step++) {
            for (int key = 0; key < KEYS; key++) {
                Message message = new Message(topic, "ordered", ("key" + key + "-" + step).getBytes());
                Scene.sent(producer.send(message, (queues, m, k) -> queues.get((int) k % queues.size()), key));
            }
        }
    }

    /** Sends messages and refuses them; whoever joins the group next has to get them again. */
    private static void refuse(Scene scene) throws Exception {
        DefaultMQProducer producer = scene.producer();
        String topic = scene.topic(topic("refused"));
        DefaultMQPushConsumer consumer = consumer(scene, "refused");
        Inbox inbox = new Inbox();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            inbox.add(messages);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        for (int i = 0; i < REFUSED; i++) {
            Scene.sent(producer.send(new Message(topic, "", "k" + i, ("refused" + i).getBytes())));
        }
        Scene.await("all to be refused", () -> inbox.distinct().size() == REFUSED);
        consumer.shutdown();
    }

    private static void consume(Scene scene) throws Exception {
        DefaultMQPushConsumer consumer = consumer(scene, "all");
        Inbox inbox = new Inbox().orderly(consumer);
        consumer.start();
        int wanted = PLAIN + compressions().size() + IN_BATCH + STEPS * KEYS;
        Scene.await(wanted + " messages", () -> inbox.all().size() >= wanted);
        Scene.expectEqual(wanted, inbox.all().size(), "messages");
        Map<String, List<MessageExt>> tagged =
            inbox.all().stream().collect(Collectors.groupingBy(MessageExt::getTags));

        Scene.expectEqual(PLAIN, tagged.get("plain").size(), "plain messages");
        for (MessageExt message : tagged.get("plain")) {
            Scene.expectEqual("k" + Inbox.body(message).substring(5), message.getKeys().trim(), "key");
            Scene.expectEqual("blue", message.getUserProperty("colour"), "property");
        }
        List<String> kinds = new ArrayList<>();
        for (MessageExt message : tagged.get("packed")) {
            kinds.add(message.getKeys().trim());
            Scene.expect(Arrays.equals(packedBody(), message.getBody()), "body of " + message.getKeys());
            Scene.expect(message.getStoreSize() < 50_000, "stored " + message.getStoreSize() + " bytes");
        }
        kinds.sort(null);
        Scene.expectEqual(compressions(), kinds, "compressions");
        List<String> batch = tagged.get("batch").stream().map(Inbox::body).collect(Collectors.toList());
        for (int i = 0; i < IN_BATCH; i++) {
            Scene.expectEqual("batch" + i, batch.get(i), "order of the batch");
        }
        Map<String, Integer> next = new HashMap<>();
        for (MessageExt message : tagged.get("ordered")) {
            String[] parts = new String(message.getBody(), StandardCharsets.UTF_8).split("-");
            Scene.expectEqual(next.merge(parts[0], 1, Integer::sum) - 1, Integer.valueOf(parts[1]), parts[0]);
        }
        Scene.expectEqual(KEYS, next.size(), "keys");
        consumeRefused(scene);
    }

    /** What another member of the group has refused comes here. */
    private static void consumeRefused(Scene scene) throws Exception {
        DefaultMQPushConsumer consumer = consumer(scene, "refused");
        Inbox inbox = new Inbox().concurrently(consumer);
        consumer.start();
        List<String> wanted = new ArrayList<>();
        for (int i = 0; i < REFUSED; i++) {
            wanted.add("refused" + i);
        }
        inbox.awaitExactly(wanted);
        for (MessageExt message : inbox.all()) {
            Scene.expectEqual("k" + Inbox.body(message).substring(7), message.getKeys().trim(), "key");
            Scene.expectEqual(topic("refused"), message.getTopic(), "topic");
            Scene.expect(message.getReconsumeTimes() > 0, "was not refused before");
        }
    }
}
