//! What must hold for any bytes at all. The fuzz targets call these functions with what they make up; `cargo test`
//! calls them with the corpus and with random bytes. They panic where something does not hold.

use std::borrow::Cow;

use super::requests::{self, SendHeader, SendNames};
use super::{frame, Command, ExtFields, Head, RawFrame, Serialization, ToExt};

/// Bytes off a connection: frames are cut within what is there and their headers are read or refused.
pub fn frames(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some(frame)) = frame::next(rest) {
        assert_eq!(frame.len, 8 + frame.header.len() + frame.body.len());
        assert_eq!(frame::announced_len(rest), Ok(Some(frame.len)));
        header(frame.serialization, frame.header);
        rest = &rest[frame.len..];
    }
}

/// A header is a value or an error. A value can be written and read back, and so can what each type of request makes
/// of it.
pub fn header(serialization: Serialization, header: &[u8]) {
    let Ok(head) = Head::parse(serialization, header) else { return };
    typed(&head.ext);
    let command = Command::decode(&RawFrame { serialization, header, body: b"body", len: 0 }).expect("it was parsed");
    assert_eq!(rewritten(&command, Serialization::Json), Some(command.clone()), "JSON keeps everything");
    // A binary header has no empty texts and fewer bits, but what has been through one stays as it is.
    if let Some(binary) = rewritten(&command, Serialization::RocketMq) {
        assert_eq!(rewritten(&binary, Serialization::RocketMq), Some(binary));
    }
}

fn rewritten(command: &Command, serialization: Serialization) -> Option<Command> {
    let mut out = Vec::new();
    command.encode(serialization, &mut out).ok()?;
    let frame = frame::next(&out).expect("we wrote it").expect("all of it");
    Some(Command::decode(&frame).expect("we wrote it"))
}

/// Each type takes the fields or refuses them, and reads what it writes.
fn typed(ext: &ExtFields<'_>) {
    for code in [super::request::SEND_MESSAGE, super::request::SEND_MESSAGE_V2] {
        if let Ok(header) = SendHeader::decode(code, ext) {
            let written = written(&(SendNames::of(code), &header));
            assert_eq!(SendHeader::decode(code, &fields(&written)).as_ref(), Ok(&header));
        }
    }
    macro_rules! each {
        ($($name:ident)+) => {$(
            if let Ok(value) = requests::$name::decode(ext) {
                let written = written(&value);
                assert_eq!(requests::$name::decode(&fields(&written)).as_ref(), Ok(&value));
                assert_eq!(value.clone().into_owned(), value);
            }
        )+};
    }
    each! {
        SendResponse PushReplyMessage PullHeader PullResponse
        HeartbeatResponse UnregisterClient GetConsumerListByGroup NotifyConsumerIdsChanged
        QueryConsumerOffset UpdateConsumerOffset SearchOffsetByTimestamp GetMaxOffset GetMinOffset
        GetEarliestMsgStoretime OffsetResponse StoretimeResponse
        ConsumerSendMsgBack EndTransaction CheckTransactionState ResumeCheckHalfMessage RecallMessage
        RecallMessageResponse QueryMessage QueryMessageResponse ViewMessageById
        ResetOffset ResetConsumerClientOffset GetConsumerStatus GetConsumerRunningInfo ConsumeMessageDirectly
        UpdateAndCreateTopic DeleteTopicInBroker GetTopicConfig DeleteSubscriptionGroup GetSubscriptionGroupConfig
        UpdateAndGetGroupForbidden GetAllTopicConfig GetAllSubscriptionGroupConfig ExchangeBrokerHaInfo
        ResetMasterFlushOffset
        GetBrokerConfigResponse GetTopicStatsInfo GetConsumerConnectionList GetProducerConnectionList GetConsumeStats
        QueryTopicConsumeByWho QueryConsumeTimeSpan QueryCorrectionOffset CloneGroupOffset ViewBrokerStatsData
        GetBrokerConsumeStats QueryConsumeQueue QueryTopicsByConsumer QuerySubscriptionByConsumer
        PutKvConfig GetKvConfig GetKvConfigResponse DeleteKvConfig GetKvListByNamespace
        RegisterBroker RegisterBrokerResponse UnregisterBroker GetRouteInfoByTopic BrokerHeartbeat QueryDataVersion
        QueryDataVersionResponse GetBrokerMemberGroup NotifyMinBrokerIdChange WipeWritePermOfBroker
        WipeWritePermOfBrokerResponse AddWritePermOfBroker AddWritePermOfBrokerResponse GetTopicsByCluster
        DeleteTopicInNamesrv RegisterTopicInNamesrv
        Credentials Routing
    }
}

fn written(value: &impl ToExt) -> Vec<(Cow<'static, str>, String)> {
    let mut sink: Vec<(Cow<'static, str>, String)> = Vec::new();
    value.encode(&mut sink);
    assert!(sink.iter().enumerate().all(|(at, (name, _))| !sink[..at].iter().any(|(earlier, _)| earlier == name)));
    sink
}

fn fields<'a>(written: &'a [(Cow<'static, str>, String)]) -> ExtFields<'a> {
    let pairs = written.iter().map(|(name, value)| (&**name, value.as_str()));
    ExtFields::from_pairs(pairs).expect("a type has few fields")
}
