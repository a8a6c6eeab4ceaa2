package interop;

import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** The ways to send. */
final class SendChecks {
    private SendChecks() {}

    static void addTo(Map<String, Driver.Check> checks) {
        checks.put("delayed", SendChecks::delayed);
        // Clients before 5.0 know no times.
        if (timeSetter("setDeliverTimeMs") != null) {
            checks.put("timed", SendChecks::timed);
        }
        checks.put("auto-create", SendChecks::autoCreate);
        checks.put("send", SendChecks::send);
        checks.put("async", SendChecks::async);
        checks.put("oneway", SendChecks::oneway);
        checks.put("batch", SendChecks::batch);
        checks.put("ordered", SendChecks::ordered);
        checks.put("big", SendChecks::big);
    }

    private static Inbox consumeAll(Scene scene, String topic) throws Exception {
        DefaultMQPushConsumer consumer = scene.pushConsumer();
        consumer.subscribe(topic, "*");
        Inbox inbox = new Inbox().concurrently(consumer);
        consumer.start();
        return inbox;
    }

    /** What was sent arrives with its keys, tag, flag and properties. */
    private static void send(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        Message message = new Message(topic, "tag-é", "key1 key2", "grüße".getBytes(StandardCharsets.UTF_8));
        message.setFlag(7);
        message.putUserProperty("colour", "blue = \"#00f\"");
        SendResult result = Scene.sent(producer.send(message));
        Inbox inbox = consumeAll(scene, topic);
        inbox.awaitExactly(List.of("grüße"));
        MessageExt got = inbox.all().get(0);
        Scene.expectEqual("tag-é", got.getTags(), "tag");
        Scene.expectEqual("key1 key2", got.getKeys(), "keys");
        Scene.expectEqual(7, got.getFlag(), "flag");
        Scene.expectEqual("blue = \"#00f\"", got.getUserProperty("colour"), "property");
        Scene.expectEqual(result.getMsgId(), got.getMsgId(), "message id");
        Scene.expectEqual(result.getMessageQueue().getQueueId(), got.getQueueId(), "queue");
        Scene.expectEqual(result.getQueueOffset(), got.getQueueOffset(), "queue offset");
        Scene.expectEqual("broker-a", result.getMessageQueue().getBrokerName(), "broker name");
    }

    /** The first send to an unknown topic makes it. */
    private static void autoCreate(Scene scene) throws Exception {
        DefaultMQProducer producer = scene.producer();
        List<String> bodies = Scene.sendMany(producer, scene.topicName(), "m", 10);
        scene.awaitRoute(producer, scene.topicName());
        consumeAll(scene, scene.topicName()).awaitExactly(bodies);
    }

    private static void async(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        List<String> bodies = new ArrayList<>();
        List<CompletableFuture<SendResult>> results = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            CompletableFuture<SendResult> result = new CompletableFuture<>();
            results.add(result);
            bodies.add("m" + i);
            producer.send(Scene.message(topic, "m" + i), new SendCallback() {
                @Override
                public void onSuccess(SendResult sent) {
                    result.complete(sent);
                }

                @Override
                public void onException(Throwable problem) {
                    result.completeExceptionally(problem);
                }
            });
        }
        for (CompletableFuture<SendResult> result : results) {
            Scene.sent(result.get(60, TimeUnit.SECONDS));
        }
        consumeAll(scene, topic).awaitExactly(bodies);
    }

    private static void oneway(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        List<String> bodies = new ArrayList<>();
        for (int i = 0; i < 30; i++) {
            producer.sendOneway(Scene.message(topic, "m" + i));
            bodies.add("m" + i);
        }
        consumeAll(scene, topic).awaitExactly(bodies);
    }

    /** A batch is stored as single messages, in order, in one queue, each with an id. */
    private static void batch(Scene scene) throws Exception {
        String topic = scene.topic();
        List<Message> messages = new ArrayList<>();
        List<String> bodies = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            bodies.add("m" + i);
            messages.add(new Message(topic, "t" + i % 2, "k" + i, bodies.get(i).getBytes(StandardCharsets.UTF_8)));
        }
        SendResult result = Scene.sent(scene.producer().send(messages));
        Scene.expectEqual(40, result.getMsgId().split(",").length, "message ids");
        Scene.expectEqual(40, result.getOffsetMsgId().split(",").length, "offset ids");
        Inbox inbox = consumeAll(scene, topic);
        inbox.awaitExactly(bodies);
        HashSet<String> ids = new HashSet<>();
        for (MessageExt got : inbox.all()) {
            int i = Integer.parseInt(Inbox.body(got).substring(1));
            Scene.expectEqual("k" + i, got.getKeys(), "keys");
            Scene.expectEqual(result.getQueueOffset() + i, got.getQueueOffset(), "queue offset");
            ids.add(got.getMsgId());
        }
        // Version 5 gives the batch an id of its own, and Apache's broker puts it over the messages'.
        boolean own = ids.equals(new HashSet<>(Arrays.asList(result.getMsgId().split(","))));
        Scene.expect(own || ids.size() == 1, "ids " + ids);
    }

    /** A selector's choice of queue is kept, and offsets in a queue follow each other. */
    private static void ordered(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        long[] next = new long[Scene.QUEUES];
        for (int i = 0; i < 40; i++) {
            SendResult result = Scene.sent(producer.send(
                Scene.message(topic, "m" + i), (queues, m, key) -> queues.get((int) key % queues.size()), i));
            int queue = result.getMessageQueue().getQueueId();
            Scene.expectEqual(i % Scene.QUEUES, queue, "queue");
            Scene.expectEqual(next[queue]++, result.getQueueOffset(), "queue offset");
        }
    }

    /** Nothing of a delay level arrives before its time. */
    private static void delayed(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        Inbox inbox = consumeAll(scene, topic);
        for (int level = 0; level <= 2; level++) {
            Message message = Scene.message(topic, "level" + level);
            message.setDelayTimeLevel(level);
            Scene.sent(producer.send(message));
        }
        inbox.awaitExactly(List.of("level0", "level1", "level2"));
        for (MessageExt got : inbox.all()) {
            // The levels are set to 1 s, 2 s, ...
            long seconds = Long.parseLong(Inbox.body(got).substring(5));
            long waited = got.getStoreTimestamp() - got.getBornTimestamp();
            Scene.expect(waited >= seconds * 1000 - 50, "level " + seconds + " came after " + waited + " ms");
            Scene.expectEqual(topic, got.getTopic(), "topic");
        }
    }

    /** Messages with a time of their own come in its second, whatever the order in which they were sent. */
    private static void timed(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        Inbox inbox = consumeAll(scene, topic);
        long now = System.currentTimeMillis();
        Map<String, Long> due = Map.of("at", now + 5000, "after", now + 3000, "past", now);
        Message at = Scene.message(topic, "at");
        timeSetter("setDeliverTimeMs").invoke(at, now + 5000);
        Message after = Scene.message(topic, "after");
        timeSetter("setDelayTimeMs").invoke(after, 3000L);
        Message past = Scene.message(topic, "past");
        timeSetter("setDeliverTimeMs").invoke(past, now - 60_000);
        for (Message message : List.of(at, after, past)) {
            Scene.sent(producer.send(message));
        }
        inbox.awaitExactly(List.of("at", "after", "past"));
        Scene.expectEqual(List.of("past", "after", "at"), inbox.bodies(), "order");
        for (MessageExt got : inbox.all()) {
            long late = got.getStoreTimestamp() - due.get(Inbox.body(got));
            Scene.expect(late >= 0 && late < 5000, Inbox.body(got) + " came " + late + " ms after its time");
            Scene.expectEqual(topic, got.getTopic(), "topic");
        }
    }

    /** The method of a message that sets a time; null if this client has none. */
    private static Method timeSetter(String name) {
        try {
            return Message.class.getMethod(name, long.class);
        } catch (NoSuchMethodException absent) {
            return null;
        }
    }

    /** Bodies above 4 KiB travel and are stored compressed; the consumer gets them whole. */
    private static void big(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        byte[] text = new byte[1_000_000];
        for (int i = 0; i < text.length; i++) {
            text[i] = (byte) ('a' + i % 23);
        }
        byte[] noise = new byte[3_000_000];
        new Random(1).nextBytes(noise);
        Scene.sent(producer.send(new Message(topic, "text", text)));
        Scene.sent(producer.send(new Message(topic, "noise", noise)));
        Inbox inbox = consumeAll(scene, topic);
        Scene.await("big messages", () -> inbox.all().size() >= 2);
        Scene.expectEqual(2, inbox.all().size(), "messages");
        for (MessageExt got : inbox.all()) {
            boolean isText = "text".equals(got.getTags());
            Scene.expect(Arrays.equals(isText ? text : noise, got.getBody()), "body of " + got.getTags());
            Scene.expect(!isText || got.getStoreSize() < 100_000, "stored " + got.getStoreSize() + " bytes");
        }
    }
}
