//! Permission bits of topics, queues and brokers.

/// Queues with a priority; unused.
pub const PRIORITY: i32 = 8;
/// Consumers may read.
pub const READ: i32 = 4;
/// Producers may write.
pub const WRITE: i32 = 2;
/// May serve as the template for topics created by a send.
pub const INHERIT: i32 = 1;

/// Whether the read bit is set.
pub fn is_readable(permission: i32) -> bool {
    permission & READ != 0
}

/// Whether the write bit is set.
pub fn is_writable(permission: i32) -> bool {
    permission & WRITE != 0
}

/// Whether the inherit bit is set.
pub fn is_inherited(permission: i32) -> bool {
    permission & INHERIT != 0
}

/// RocketMQ's text for permissions in remarks: `RWX`, with `-` for a bit that is not set.
pub fn text(permission: i32) -> String {
    let letter = |bit, letter| if permission & bit != 0 { letter } else { '-' };
    [letter(READ, 'R'), letter(WRITE, 'W'), letter(INHERIT, 'X')].iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        assert_eq!(text(6), "RW-");
        assert_eq!(text(7), "RWX");
        assert_eq!(text(0), "---");
    }
}
