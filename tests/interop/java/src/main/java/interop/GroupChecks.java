package interop;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** Several consumers of one group. */
final class GroupChecks {
    private GroupChecks() {}

    static void addTo(Map<String, Driver.Check> checks) {
        checks.put("join-leave", scene -> joinAndLeave(scene, false));
        checks.put("join-leave-orderly", scene -> joinAndLeave(scene, true));
        checks.put("broadcast", GroupChecks::broadcast);
    }

    private static DefaultMQPushConsumer start(Scene scene, String topic, Inbox inbox, boolean orderly)
        throws Exception {
        DefaultMQPushConsumer consumer = scene.pushConsumer();
        consumer.subscribe(topic, "*");
        if (orderly) {
            inbox.orderly(consumer);
        } else {
            inbox.concurrently(consumer);
        }
        consumer.start();
        return consumer;
    }

    /** Which queues the messages of this prefix came from. */
    private static Set<Integer> queues(Inbox inbox, String prefix) {
        Set<Integer> queues = new HashSet<>();
        inbox.all().stream().filter(m -> Inbox.body(m).startsWith(prefix)).forEach(m -> queues.add(m.getQueueId()));
        return queues;
    }

    /**
     * A second consumer takes over half of the queues and gives them back when it leaves. Messages
     * flow all the time and none is lost; a queue that changes hands may repeat some.
     */
    private static void joinAndLeave(Scene scene, boolean orderly) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        List<String> sent = new ArrayList<>();
        Inbox one = new Inbox();
        Inbox two = new Inbox();

        start(scene, topic, one, orderly);
        sendUntil(producer, topic, "alone", sent, round -> queues(one, round).size() == Scene.QUEUES);
        DefaultMQPushConsumer second = start(scene, topic, two, orderly);
        sendUntil(producer, topic, "both", sent,
            round -> queues(one, round).size() == 2 && queues(two, round).size() == 2);
        second.shutdown();
        sendUntil(producer, topic, "again", sent, round -> queues(one, round).size() == Scene.QUEUES);

        Scene.await("all that was sent", () -> {
            Set<String> got = one.distinct();
            got.addAll(two.distinct());
            return got.containsAll(sent);
        });
    }

    private interface Settled {
        boolean in(String round) throws Exception;
    }

    /** Sends rounds of a message per queue until one round arrived where it should. */
    private static void sendUntil(
        DefaultMQProducer producer, String topic, String phase, List<String> sent, Settled settled)
        throws Exception {
        int[] round = {0};
        Scene.await("the queues to be shared: " + phase, () -> {
            String name = phase + round[0]++ + "-";
            for (int queue = 0; queue < Scene.QUEUES; queue++) {
                sent.add(name + queue);
                Scene.sent(producer.send(Scene.message(topic, name + queue),
                    (queues, m, k) -> queues.get((int) k), queue));
            }
            for (int i = 0; i < 25 && !settled.in(name); i++) {
                Thread.sleep(20);
            }
            return settled.in(name);
        });
    }

    /** Every broadcast consumer gets everything. */
    private static void broadcast(Scene scene) throws Exception {
        String topic = scene.topic();
        List<Inbox> inboxes = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer consumer = scene.pushConsumer();
            Scene.setMessageModel(consumer, "BROADCASTING");
            consumer.subscribe(topic, "*");
            inboxes.add(new Inbox().concurrently(consumer));
            consumer.start();
        }
        List<String> bodies = Scene.sendMany(scene.producer(), topic, "m", 40);
        for (Inbox inbox : inboxes) {
            inbox.awaitExactly(bodies);
        }
    }
}
