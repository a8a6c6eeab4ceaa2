package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** A group goes on where it stopped. */
final class OffsetChecks {
    private OffsetChecks() {}

    static void addTo(Map<String, Driver.Check> checks) {
        checks.put("resume-client", OffsetChecks::resumeClient);
        checks.put("resume-broker-before", OffsetChecks::consumeFirstHalf);
        checks.put("resume-broker-after", scene -> consumeSecondHalf(scene, scene.topicName()));
    }

    private static void resumeClient(Scene scene) throws Exception {
        consumeFirstHalf(scene);
        consumeSecondHalf(scene, scene.topicName());
    }

    /** Consumes what is there, stops the consumer, and leaves more for the next one. */
    private static void consumeFirstHalf(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        List<String> first = Scene.sendMany(producer, topic, "first", 40);
        DefaultMQPushConsumer consumer = scene.pushConsumer();
        consumer.subscribe(topic, "*");
        Inbox inbox = new Inbox().concurrently(consumer);
        consumer.start();
        inbox.awaitExactly(first);
        consumer.shutdown();
        Scene.sendMany(producer, topic, "second", 40);
        Scene.sendToEachQueue(producer, topic, "", "end");
    }

    /** A new consumer of the group gets the rest, and none of what was consumed. */
    private static void consumeSecondHalf(Scene scene, String topic) throws Exception {
        DefaultMQPushConsumer consumer = scene.pushConsumer();
        consumer.subscribe(topic, "*");
        Inbox inbox = new Inbox().concurrently(consumer);
        consumer.start();
        Scene.await("the last of each queue", () -> inbox.count("end") == Scene.QUEUES);
        List<String> wanted = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            wanted.add("second" + i);
        }
        for (int i = 0; i < Scene.QUEUES; i++) {
            wanted.add("end");
        }
        inbox.awaitExactly(wanted);
    }
}
