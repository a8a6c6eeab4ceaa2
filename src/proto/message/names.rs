//! Names of topics and groups: which are legal, and those made from others.

use crate::proto::remoting::response;

/// The longest topic a client may send to or create, in characters; retry topics included.
pub const TOPIC_MAX: usize = 127;
/// The longest group, in characters.
pub const GROUP_MAX: usize = 255;

/// Begins the topic a group's failed messages go to.
pub const RETRY_PREFIX: &str = "%RETRY%";
/// Begins the topic of a group's messages that failed too often.
pub const DLQ_PREFIX: &str = "%DLQ%";
/// Begins a light queue.
pub const LMQ_PREFIX: &str = "%LMQ%";
/// Ends a cluster's topic for replies.
pub const REPLY_SUFFIX: &str = "_REPLY_TOPIC";

/// Why a name is refused. Clients get INVALID_PARAMETER (29) with [`NameError::remark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {kind} {fault}")]
pub struct NameError {
    /// What was to be named.
    pub kind: NameKind,
    /// What is wrong with the name.
    pub fault: NameFault,
}

/// What a name names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// A topic.
    Topic,
    /// A producer or consumer group.
    Group,
}

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// Empty or only blanks.
    Blank,
    /// Has characters other than `%|a-zA-Z0-9_-`.
    Characters,
    /// Longer than [`TOPIC_MAX`] or [`GROUP_MAX`].
    Length,
}

impl std::fmt::Display for NameKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            NameKind::Topic => "topic",
            NameKind::Group => "group",
        })
    }
}

impl std::fmt::Display for NameFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            NameFault::Blank => "is blank",
            NameFault::Characters => "has characters other than %, |, letters, digits, _ and -",
            NameFault::Length => "is too long",
        })
    }
}

impl NameError {
    /// RocketMQ's response code for it: INVALID_PARAMETER.
    pub const CODE: i32 = response::INVALID_PARAMETER;

    /// RocketMQ's text for it, which users search for.
    pub fn remark(&self) -> String {
        let kind = self.kind;
        match self.fault {
            NameFault::Blank => format!("The specified {kind} is blank."),
            NameFault::Characters => {
                format!("The specified {kind} contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$")
            }
            NameFault::Length => format!("The specified {kind} is longer than {kind} max length."),
        }
    }
}

/// Checks the name of a topic that a client sends to or creates.
pub fn validate_topic(topic: &str) -> Result<(), NameError> {
    validate(topic, TOPIC_MAX).map_err(|fault| NameError { kind: NameKind::Topic, fault })
}

/// Checks the name of a group that is about to be created.
pub fn validate_group(group: &str) -> Result<(), NameError> {
    validate(group, GROUP_MAX).map_err(|fault| NameError { kind: NameKind::Group, fault })
}

fn validate(name: &str, longest: usize) -> Result<(), NameFault> {
    if name.trim().is_empty() {
        return Err(NameFault::Blank);
    }
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'|' | b'_' | b'-');
    if !name.bytes().all(legal) {
        return Err(NameFault::Characters);
    }
    // All characters are single bytes here.
    if name.len() > longest {
        return Err(NameFault::Length);
    }
    Ok(())
}

/// The topic that a group's failed messages wait in.
pub fn retry_topic(group: &str) -> String {
    [RETRY_PREFIX, group].concat()
}

/// The topic that keeps a group's messages which failed too often.
pub fn dlq_topic(group: &str) -> String {
    [DLQ_PREFIX, group].concat()
}

/// The topic that replies to requests of a cluster go to.
pub fn reply_topic(cluster: &str) -> String {
    [cluster, REPLY_SUFFIX].concat()
}

/// The group whose retry topic this is.
pub fn group_of_retry_topic(topic: &str) -> Option<&str> {
    topic.strip_prefix(RETRY_PREFIX)
}

/// The group whose dead-letter topic this is.
pub fn group_of_dlq_topic(topic: &str) -> Option<&str> {
    topic.strip_prefix(DLQ_PREFIX)
}

/// Whether the topic is some group's retry topic.
pub fn is_retry_topic(topic: &str) -> bool {
    topic.starts_with(RETRY_PREFIX)
}

/// Whether the topic is some group's dead-letter topic.
pub fn is_dlq_topic(topic: &str) -> bool {
    topic.starts_with(DLQ_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_names() {
        for name in ["a", "%RETRY%cg_demo", "A|b-c_9", &"t".repeat(127)] {
            assert_eq!(validate_topic(name), Ok(()), "{name}");
        }
        assert_eq!(validate_group(&"g".repeat(255)), Ok(()));
    }

    #[test]
    fn illegal_names_say_why_in_rocketmqs_words() {
        let remark = |result: Result<(), NameError>| result.unwrap_err().remark();
        assert_eq!(remark(validate_topic(" ")), "The specified topic is blank.");
        assert_eq!(
            remark(validate_topic("a+b")),
            "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
        );
        assert_eq!(remark(validate_topic(&"t".repeat(128))), "The specified topic is longer than topic max length.");
        assert_eq!(remark(validate_group("标签")), remark(validate_group("a b")));
        assert_eq!(validate_group(&"g".repeat(256)).unwrap_err().to_string(), "the group is too long");
    }

    #[test]
    fn names_made_from_others() {
        assert_eq!(retry_topic("g"), "%RETRY%g");
        assert_eq!(group_of_retry_topic("%RETRY%g"), Some("g"));
        assert_eq!(group_of_dlq_topic(&dlq_topic("g")), Some("g"));
        assert_eq!(group_of_retry_topic("%DLQ%g"), None);
        assert_eq!(reply_topic("DefaultCluster"), "DefaultCluster_REPLY_TOPIC");
    }
}
