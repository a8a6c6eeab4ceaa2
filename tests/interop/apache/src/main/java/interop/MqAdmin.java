package interop;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs mqadmin commands one after another in one process, since a process each costs seconds.
 *
 * <p>Each line of standard input is a command, its arguments separated by tabs; what it prints is
 * followed by a line END.
 */
public final class MqAdmin {
    public static void main(String[] none) throws Exception {
        PrintStream out = System.out;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(capture);
            System.setErr(capture);
            MQAdminStartup.main0(line.split("\t"), null);
            capture.flush();
            out.println(printed.toString(StandardCharsets.UTF_8).stripTrailing());
            out.println("END");
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
