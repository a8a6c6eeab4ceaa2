//! Fields that any request may carry.

use std::borrow::Cow;

use super::fields::ext_fields;

ext_fields! {
    /// Who signed a request. The C++ client sends the fields empty when it has no credentials, which counts as absent.
    pub struct Credentials<'a> {
        access_key: Option<Cow<'a, str>> = "AccessKey",
        /// Base64 of an HMAC-SHA1 over the other fields and the body.
        signature: Option<Cow<'a, str>> = "Signature",
        security_token: Option<Cow<'a, str>> = "SecurityToken",
    }
}

ext_fields! {
    /// How a request is to be routed.
    pub struct Routing<'a> {
        broker_name: Option<Cow<'a, str>> = "bname",
        namespace: Option<Cow<'a, str>> = "ns",
        namespaced: Option<bool> = "nsd",
        oneway: Option<bool> = "oway",
        /// Whether a static topic's queue is meant.
        logical: Option<bool> = "lo",
    }
}
