//! What a slave answers to pulls: whatever it knows better than to decide alone it leaves to its master.
//!
//! A slave's queue may lag behind its master's, and may have lost other files to its age. So an offset that the slave
//! does not have is not wrong: the group keeps it, and goes on at the master, or here once the messages come (REP-8).

use crate::broker::BrokerError;
use crate::proto::remoting::codes::response as code;

use super::verdict::{verdict, Answer, Read, ReadStatus, Verdict};
use super::PullRules;

/// How long a slave holds a pull that is better served by its master, in ms.
const HOLD_FOR_MASTER_MS: i64 = 500;

/// The answer to a read, or whether it waits, by the broker's role; see [`verdict`].
///
/// # Errors
/// On a slave without a master: it has no longer what is asked for.
pub fn verdict_by_role(rules: &PullRules, read: &Read, may_wait: bool, woken: bool) -> Result<Verdict, BrokerError> {
    let role = &rules.role;
    if role.takes_writes() {
        return Ok(verdict(read, may_wait, woken));
    }
    // Whoever is not far behind is better served by the master. It is held here for a moment all the same: a client that
    // has not heard of the master yet comes again at once.
    let to_master = role.master_is_registered() && !read.far_behind;
    let unknown_here = match read.status {
        ReadStatus::OffsetOverflowBadly | ReadStatus::OffsetTooSmall => true,
        ReadStatus::NoMessageInQueue => read.from != 0,
        _ => false,
    };
    if unknown_here && !rules.offset_check_in_slave {
        let before = read.status == ReadStatus::OffsetTooSmall;
        return match to_master {
            false if before => Err(BrokerError::NotOnThisSlave { offset: read.from, min: read.min }),
            _ if may_wait && !before => Ok(Verdict::Wait { from: read.from }),
            true => Ok(answer(code::PULL_RETRY_IMMEDIATELY, read, read.from)),
            false => Ok(answer(code::PULL_NOT_FOUND, read, read.from)),
        };
    }
    Ok(match verdict(read, may_wait, woken) {
        Verdict::Answer(found) if to_master && found.code != code::SUCCESS => {
            answer(code::PULL_RETRY_IMMEDIATELY, read, found.next)
        }
        other => other,
    })
}

/// How long a pull may wait, in ms: one that is to go to the master waits a moment only.
pub fn hold_ms(rules: &PullRules, asked: i64) -> i64 {
    match rules.role.is_slave() && rules.role.master_is_registered() {
        true => asked.min(HOLD_FOR_MASTER_MS),
        false => asked,
    }
}

fn answer(code: i32, read: &Read, next: i64) -> Verdict {
    Verdict::Answer(Answer { code, remark: read.status.name(), next, min: read.min, max: read.max })
}

#[cfg(test)]
mod tests {
    use super::super::suggested_broker_id;
    use super::*;
    use crate::broker::groups::{GroupRules, GroupTable};
    use crate::broker::role::Role;
    use crate::env::Millis;
    use crate::proto::body::SubscriptionGroupWrapper;

    fn rules(master_registered: bool, offset_check_in_slave: bool) -> PullRules {
        let role = Role::slave(1);
        role.set_master_registered(master_registered);
        let address = "10.0.0.1".to_owned();
        PullRules {
            address,
            readable: true,
            lite_pull: true,
            property_filter: false,
            slave_read: true,
            offset_check_in_slave,
            role,
        }
    }

    fn read(status: ReadStatus, from: i64) -> Read {
        Read { status, from, examined_to: from + 3, min: 10, max: 500, far_behind: false }
    }

    fn code_and_next(rules: &PullRules, read: &Read, may_wait: bool) -> (i32, i64) {
        match verdict_by_role(rules, read, may_wait, false) {
            Ok(Verdict::Answer(answer)) => (answer.code, answer.next),
            Ok(Verdict::Wait { from }) => (-1, from),
            Err(error) => (error.code(), -1),
        }
    }

    /// REP-8: a consumer that came to a lagging slave was told that its offset was illegal, and began anew at 0.
    #[test]
    fn rep_8_a_slave_moves_nobody() {
        let (with, without) = (rules(true, false), rules(false, false));
        let ahead = read(ReadStatus::OffsetOverflowBadly, 1000);
        assert_eq!(code_and_next(&with, &ahead, false), (20, 1000), "the master knows");
        assert_eq!(code_and_next(&without, &ahead, false), (19, 1000));
        let before = read(ReadStatus::OffsetTooSmall, 3);
        assert_eq!(code_and_next(&with, &before, true), (20, 3));
        assert_eq!(code_and_next(&without, &before, true), (2, -1), "the master may still have them");
        let empty = Read { min: 0, max: 0, ..read(ReadStatus::NoMessageInQueue, 7) };
        assert_eq!(code_and_next(&with, &empty, false), (20, 7));
        for (rules, read) in [(&with, &ahead), (&without, &ahead), (&with, &empty), (&without, &empty)] {
            assert_eq!(code_and_next(rules, read, true), (-1, read.from), "until the messages come");
        }
        assert_eq!(code_and_next(&rules(true, true), &ahead, true), (20, 500), "offsetCheckInSlave");
        assert_eq!(code_and_next(&rules(false, true), &ahead, true), (21, 500), "offsetCheckInSlave");
    }

    #[test]
    fn who_has_caught_up_is_sent_to_the_master_after_a_moment() {
        let (with, without) = (rules(true, false), rules(false, false));
        assert_eq!(code_and_next(&with, &read(ReadStatus::Found, 50), true), (0, 53));
        let end = read(ReadStatus::OffsetOverflowOne, 500);
        assert_eq!((code_and_next(&with, &end, true), code_and_next(&with, &end, false)), ((-1, 500), (20, 500)));
        assert_eq!((code_and_next(&without, &end, true), code_and_next(&without, &end, false)), ((-1, 500), (19, 500)));
        assert_eq!((hold_ms(&with, 15_000), hold_ms(&without, 15_000)), (HOLD_FOR_MASTER_MS, 15_000));
        assert_eq!(code_and_next(&with, &read(ReadStatus::NoMatchedMessage, 50), true), (20, 53));
        let far = Read { far_behind: true, ..read(ReadStatus::NoMatchedMessage, 50) };
        assert_eq!(code_and_next(&with, &far, true), (20, 53));
    }

    #[test]
    fn a_slave_that_serves_the_far_behind_sends_the_others_to_the_master() {
        let group_rules = GroupRules { auto_create: true, groups_max: 100 };
        let loaded = SubscriptionGroupWrapper::default();
        let mut groups = GroupTable::new(group_rules, loaded, Millis(1), &mut Vec::new());
        let group = groups.find_or_create("g", Millis(1), &mut Vec::new()).unwrap();
        let (near, far) = (read(ReadStatus::Found, 50), Read { far_behind: true, ..read(ReadStatus::Found, 50) });
        assert_eq!(suggested_broker_id(&rules(true, false), &group, &far), 1);
        assert_eq!(suggested_broker_id(&rules(true, false), &group, &near), 0);
        assert_eq!(suggested_broker_id(&rules(false, false), &group, &near), 0, "the group's own");
    }
}
