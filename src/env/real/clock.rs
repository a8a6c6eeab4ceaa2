//! The operating system's clocks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::env::{BoxFuture, Clock, Millis};

/// Wall clock, monotonic clock and tokio's timers (1 ms ticks).
pub(super) struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        // A clock set before 1970 reads as 1970.
        Millis(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64))
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    fn local_offset_seconds(&self) -> i32 {
        let now = (self.now().0 / 1000) as libc::time_t;
        // SAFETY: localtime_r writes into the `tm` we own and keeps no reference; an all-zero `tm` is a valid value.
        unsafe {
            let mut local: libc::tm = std::mem::zeroed();
            if libc::localtime_r(&now, &mut local).is_null() {
                return 0;
            }
            local.tm_gmtoff as i32
        }
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}
