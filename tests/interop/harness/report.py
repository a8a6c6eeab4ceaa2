"""What is printed and counted: one `ok`, `FAIL` or `SKIP` line per check."""

import sys
import threading


class Report:
    def __init__(self, require=False):
        self.require = require
        self.lines = {}  # (target, driver, check) -> "ok" | "FAIL" | "SKIP"
        self._lock = threading.Lock()

    def ok(self, target, driver, check):
        self._put("ok", target, driver, check)

    def fail(self, target, driver, check, reason):
        self._put("FAIL", target, driver, check, reason)

    def skip(self, target, driver, check, reason):
        if self.require:
            self._put("FAIL", target, driver, check, "skipped, but --require is given: " + reason)
        else:
            self._put("SKIP", target, driver, check, reason)

    def run(self, target, driver, check, *actions):
        """Runs one check written in Python: it passes unless it raises. Says whether it passed."""
        try:
            for action in actions:
                action()
        except Exception as problem:  # whatever went wrong is the check's result
            self.fail(target, driver, check, f"{type(problem).__name__}: {problem}")
            return False
        self.ok(target, driver, check)
        return True

    def run_in_turn(self, target, driver, checks):
        """Runs checks that build on each other: after the first that fails the others fail unrun."""
        for i, (check, *actions) in enumerate(checks):
            if not self.run(target, driver, check, *actions):
                for later, *_ in checks[i + 1 :]:
                    self.fail(target, driver, later, f"not run, since {check} failed")
                return

    def results(self, target):
        """The sorted result lines of one target, for the committed results file."""
        return sorted(
            f"{word} {driver} {check}" for (t, driver, check), word in self.lines.items() if t == target
        )

    def close(self):
        """Prints the closing line and returns the exit code."""
        words = list(self.lines.values())
        passed, failed, skipped = (words.count(w) for w in ("ok", "FAIL", "SKIP"))
        for (target, driver, check), word in sorted(self.lines.items()):
            if word != "ok":
                print(f"  {word}: {target} {driver} {check}")
        print(f"{passed} passed, {failed} failed, {skipped} skipped")
        return 1 if failed or not (passed or skipped) else 0

    def _put(self, word, target, driver, check, reason=None):
        with self._lock:
            self.lines[(target, driver, check)] = word
            text = f"{word} {target} {driver} {check}"
            if reason:
                text += ": " + " ".join(str(reason).split())[:600]
            print(text)
            sys.stdout.flush()
