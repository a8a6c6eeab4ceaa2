package interop;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Runs the checks named on the command line, or all, several at a time.
 *
 * <p>Reads NAMESRV_ADDR, INTEROP_DRIVER (the name to report under) and INTEROP_RUN (what makes
 * this run's topics and groups unique). Checks whose name ends in "-after" or begins with "migrate-"
 * need a broker restart after "all", or something else that the harness does, and have to be named.
 */
public final class Driver {
    private static final int AT_A_TIME = 8;

    interface Check {
        void run(Scene scene) throws Exception;
    }

    private final Map<String, Check> checks = new LinkedHashMap<>();

    private Driver() {
        // The slow ones first: the rest runs beside them.
        TransactionChecks.addTo(checks);
        RetryChecks.addTo(checks);
        GroupChecks.addTo(checks);
        OffsetChecks.addTo(checks);
        SendChecks.addTo(checks);
        ConsumeChecks.addTo(checks);
        QueryChecks.addTo(checks);
        MigrationChecks.addTo(checks);
        AcrossChecks.addTo(checks);
        Load.addTo(checks);
    }

    public static void main(String[] arguments) throws Exception {
        boolean passed = new Driver().run(Arrays.asList(arguments));
        // Some client threads are no daemons.
        System.out.flush();
        Runtime.getRuntime().halt(passed ? 0 : 1);
    }

    private boolean run(List<String> wanted) throws Exception {
        List<String> names = new ArrayList<>(wanted);
        if (names.isEmpty() || names.contains("all")) {
            names = new ArrayList<>(checks.keySet());
            names.removeIf(name -> name.endsWith("-after") || name.startsWith("migrate-"));
        }
        System.out.println("plan " + String.join(" ", names));

        ExecutorService pool = Executors.newFixedThreadPool(AT_A_TIME);
        List<Future<Boolean>> results = new ArrayList<>();
        for (String name : names) {
            results.add(pool.submit((Callable<Boolean>) () -> runOne(name)));
        }
        boolean passed = true;
        for (Future<Boolean> result : results) {
            passed &= result.get();
        }
        return passed;
    }

    private boolean runOne(String name) {
        String driver = System.getenv().getOrDefault("INTEROP_DRIVER", "java");
        try {
            Check check = checks.get(name);
            if (check == null) {
                throw new IllegalArgumentException("no such check");
            }
            try (Scene scene = new Scene(driver, name)) {
                check.run(scene);
            }
            System.out.println("ok " + driver + " " + name);
            return true;
        } catch (Throwable problem) {
            String reason = (problem + where(problem)).replaceAll("\\s+", " ");
            System.out.println("FAIL " + driver + " " + name + ": " + reason);
            return false;
        }
    }

    /** The innermost line of ours that the problem came through. */
    private static String where(Throwable problem) {
        for (StackTraceElement line : problem.getStackTrace()) {
            if (line.getClassName().startsWith("interop.") && !line.getClassName().equals("interop.Scene")) {
                return " (" + line.getFileName() + ":" + line.getLineNumber() + ")";
            }
        }
        return "";
    }
}
