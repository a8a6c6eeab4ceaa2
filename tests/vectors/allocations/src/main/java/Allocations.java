import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/** Asks the official client's strategies who gets which queue and writes their answers, one case a line. */
public class Allocations {
    static final String TOPIC = "Orders";
    static final String GROUP = "group";
    static PrintStream out;

    public static void main(String[] args) throws Exception {
        out = new PrintStream(Files.newOutputStream(Path.of(args[0])), false, StandardCharsets.UTF_8);
        for (int queues = 1; queues <= 10; queues++) {
            for (int members = 1; members <= 10; members++) {
                List<MessageQueue> plain = queues(queues, "broker-a", "broker-b");
                List<MessageQueue> rooms = queues(queues, "hz@broker-a", "sh@broker-b", "sz@broker-c");
                List<String> ids = ids(members, "10.0.0.");
                write("AVG", "", new AllocateMessageQueueAveragely(), plain, ids);
                write("AVG_BY_CIRCLE", "", new AllocateMessageQueueAveragelyByCircle(), plain, ids);
                write("CONSISTENT_HASH", "", new AllocateMessageQueueConsistentHash(), plain, ids);
                AllocateMessageQueueByConfig config = new AllocateMessageQueueByConfig();
                config.setMessageQueueList(plain.subList(0, Math.min(2, queues)));
                write("CONFIG", join(config.allocate(GROUP, "x", plain, ids)), config, plain, ids);
                AllocateMessageQueueByMachineRoom machineRoom = new AllocateMessageQueueByMachineRoom();
                machineRoom.setConsumeridcs(Set.of("hz", "sz"));
                write("MACHINE_ROOM", "hz,sz", machineRoom, rooms, ids);
                List<String> spread = new ArrayList<>();
                for (int member = 0; member < members; member++) {
                    spread.add((member % 3 == 1 ? "sh" : "hz") + "@10.0.0." + member + "@1#7");
                }
                Collections.sort(spread);
                write("MACHINE_ROOM_NEARBY", "AVG", nearby(new AllocateMessageQueueAveragely()), rooms, spread);
                write("MACHINE_ROOM_NEARBY", "AVG_BY_CIRCLE",
                    nearby(new AllocateMessageQueueAveragelyByCircle()), rooms, spread);
            }
        }
        out.close();
    }

    static AllocateMachineRoomNearby nearby(AllocateMessageQueueStrategy inner) {
        return new AllocateMachineRoomNearby(inner, new AllocateMachineRoomNearby.MachineRoomResolver() {
            @Override
            public String brokerDeployIn(MessageQueue queue) {
                return queue.getBrokerName().split("@")[0];
            }

            @Override
            public String consumerDeployIn(String clientId) {
                return clientId.split("@")[0];
            }
        });
    }

    static List<MessageQueue> queues(int count, String... brokers) {
        List<MessageQueue> queues = new ArrayList<>();
        for (int queue = 0; queue < count; queue++) {
            queues.add(new MessageQueue(TOPIC, brokers[queue % brokers.length], queue / brokers.length));
        }
        Collections.sort(queues);
        return queues;
    }

    static List<String> ids(int count, String prefix) {
        List<String> ids = new ArrayList<>();
        for (int member = 0; member < count; member++) {
            ids.add(prefix + member + "@" + (4000 + member) + "#" + (member * 7919L + 1));
        }
        Collections.sort(ids);
        return ids;
    }

    /** strategy, argument, queues, members, what each member gets; the last separated by semicolons. */
    static void write(String name, String argument, AllocateMessageQueueStrategy strategy, List<MessageQueue> queues,
        List<String> ids) {
        List<String> shares = new ArrayList<>();
        for (String id : ids) {
            shares.add(join(strategy.allocate(GROUP, id, queues, ids)));
        }
        out.print(String.join("\t", Arrays.asList(
            name, argument, join(queues), String.join(",", ids), String.join(";", shares))) + "\n");
    }

    static String join(List<MessageQueue> queues) {
        return queues.stream().map(q -> q.getBrokerName() + "/" + q.getQueueId()).collect(Collectors.joining(","));
    }
}
