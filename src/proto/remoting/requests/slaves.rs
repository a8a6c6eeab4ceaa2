//! What slaves and masters of metaq ask of each other.

use std::borrow::Cow;

use super::fields::ext_fields;

ext_fields! {
    /// 70001, and its answer: how far the tables are that a slave has, and that its master has. Each counts the changes of
    /// one life of the master's process.
    pub struct MetadataMarks {
        /// That life; 0 in a request: none is known yet.
        incarnation: i64 = "incarnation",
        topics: i64 = "topics",
        groups: i64 = "groups",
        offsets: i64 = "offsets",
        delays: i64 = "delays",
        /// In an answer where the master's log begins.
        min_phy_offset: i64 = "minPhyOffset" or 0,
    }
}

ext_fields! {
    /// The answer to 70002, whose body holds the offsets.
    pub struct KeptOffsetsResponse {
        /// Up to here the slave's log is confirmed; -1 from a slave that does not say.
        confirmed: i64 = "confirmedPhyOffset" or -1,
        /// Its last epoch; 0 is none.
        epoch: i32 = "epoch" or 0,
        /// Where it ends; -1 from a slave that does not say.
        end: i64 = "maxPhyOffset" or -1,
    }
}

ext_fields! {
    /// The answer to 70006: what a broker is to its group.
    pub struct Standing {
        /// It takes messages.
        is_master: bool = "master" or false,
        /// It is being promoted.
        is_changing: bool = "changing" or false,
        /// Each promotion raises it.
        state_version: i64 = "stateVersion" or 0,
    }
}

ext_fields! {
    /// 70007.
    pub struct Supersede<'a> {
        /// The new master's, which is higher than the old one's.
        state_version: i64 = "stateVersion",
        /// Where clients reach it.
        address: Cow<'a, str> = "brokerAddr",
    }
}

ext_fields! {
    /// 70003.
    pub struct PromoteBroker {
        /// Although NameServers name a master.
        despite_master: bool = "despiteMaster" or false,
        /// Although other slaves do not answer, or have more of the log.
        despite_others: bool = "despiteOthers" or false,
    }
}

ext_fields! {
    /// The answer to 70004.
    pub struct LeaveMasterResponse {
        /// Where the slave's log ends, for good until it follows another one.
        end: i64 = "maxPhyOffset",
    }
}

ext_fields! {
    /// The answer to 70003.
    pub struct PromoteBrokerResponse {
        /// The epoch that began.
        epoch: i64 = "epoch",
        /// Where the log ended then.
        end: i64 = "maxPhyOffset",
    }
}
