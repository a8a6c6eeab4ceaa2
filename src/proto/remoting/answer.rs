//! Answers.

use std::borrow::Cow;

use super::codes::response;
use super::ext::{FieldError, ToExt};
use super::ext_list::ExtList;
use super::frame::Serialization;
use super::head::FLAG_RESPONSE;
use super::language::Language;
use super::version;
use super::writer::{close_frame, open_frame, ExtWriter, Members, MAX_BINARY_NAME_LEN};

/// An answer as most handlers give it; the hot ones write a [`ResponseFrame`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// One of [`response`](super::response).
    pub code: i32,
    /// What went wrong, for people. Never an empty text: strict readers take even that for an error.
    pub remark: Option<String>,
    /// The named values.
    pub ext: Vec<(Cow<'static, str>, String)>,
    /// What follows the header.
    pub body: Vec<u8>,
}

impl Response {
    /// Code 0 with nothing in it.
    pub fn success() -> Self {
        Self::default()
    }

    /// A refusal, with the reason.
    pub fn error(code: i32, remark: impl Into<String>) -> Self {
        Self { code, remark: Some(remark.into()), ..Self::default() }
    }

    /// The answer to a request code that nobody knows.
    pub fn not_supported(request_code: i32) -> Self {
        // The leading space is RocketMQ's.
        Self::error(response::REQUEST_CODE_NOT_SUPPORTED, format!(" request type {request_code} not supported"))
    }

    /// With the fields of `ext` added.
    pub fn with_ext(mut self, ext: &impl ToExt) -> Self {
        ext.encode(&mut self.ext);
        self
    }

    /// With one field added.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.ext.push((name.into(), value.into()));
        self
    }

    /// With the fields that a peer gave its answer, to be passed on. One whose name no header can hold is left out.
    pub fn with_fields_of_peer(mut self, fields: &ExtList) -> Self {
        let fits = |name: &str| name.len() <= MAX_BINARY_NAME_LEN;
        let fields = fields.iter().filter(|(name, _)| fits(name));
        self.ext.extend(fields.map(|(name, value)| (name.to_owned().into(), value.to_owned())));
        self
    }

    /// With this body.
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }
}

impl From<FieldError> for Response {
    fn from(error: FieldError) -> Self {
        Self::error(response::SYSTEM_ERROR, error.to_string())
    }
}

/// Appends the frame of an answer to `out`, in the serialization of the request and with its `opaque`.
pub fn encode_response(out: &mut Vec<u8>, serialization: Serialization, opaque: i32, response: &Response) {
    let remark = response.remark.as_deref();
    let frame = ResponseFrame::begin(out, serialization, opaque, response.code, remark, |ext| {
        for (name, value) in &response.ext {
            ext.put(name, value);
        }
    });
    out.extend_from_slice(&response.body);
    frame.finish(out);
}

/// An answer being written straight into a connection's output: begin it, append the body to the same buffer, finish.
#[derive(Debug)]
#[must_use = "a frame that is not finished has no length and breaks the connection"]
pub struct ResponseFrame {
    start: usize,
    serialization: Serialization,
    opaque: i32,
}

impl ResponseFrame {
    /// Appends the frame's header to `out`, in the serialization of the request and with its `opaque`.
    pub fn begin(
        out: &mut Vec<u8>,
        serialization: Serialization,
        opaque: i32,
        code: i32,
        remark: Option<&str>,
        ext: impl FnOnce(&mut ExtWriter<'_>),
    ) -> Self {
        let start = out.len();
        let members = Members {
            code,
            language: Language::Java,
            version: version::CURRENT,
            opaque,
            flag: FLAG_RESPONSE,
            remark: remark.filter(|remark| !remark.is_empty()),
        };
        open_frame(out, serialization, members, ext);
        Self { start, serialization, opaque }
    }

    /// Where in `out` the frame begins. Whoever gives up truncates to here instead of finishing.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Fills in the length, now that header and body are at the end of `out`. Peers close a connection on a frame above
    /// the limit, so such an answer is replaced by one that says so.
    pub fn finish(self, out: &mut Vec<u8>) {
        if let Err(len) = close_frame(out, self.start) {
            let remark = format!("the answer has {len} bytes, more than a frame can hold");
            let error = Response::error(response::SYSTEM_ERROR, remark);
            encode_response(out, self.serialization, self.opaque, &error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{self, MAX_FRAME_LEN};
    use super::super::head::Head;
    use super::*;

    fn parsed(out: &[u8]) -> (Head<'_>, &[u8]) {
        let frame = frame::next(out).unwrap().unwrap();
        assert_eq!(frame.len, out.len());
        (Head::parse(frame.serialization, frame.header).unwrap(), frame.body)
    }

    #[test]
    fn json_is_compact_and_without_nulls() {
        let mut out = b"earlier".to_vec();
        let answer = Response::success().with("a", "1\u{1}").with("b", "").with_body("body");
        encode_response(&mut out, Serialization::Json, -7, &answer);
        let header = concat!(
            r#"{"code":0,"extFields":{"a":"1\u0001","b":""},"flag":1,"language":"JAVA","opaque":-7,"#,
            r#""serializeTypeCurrentRPC":"JSON","version":479}"#
        );
        assert_eq!(out[15..], [header.as_bytes(), b"body"].concat());
        assert_eq!(out[7..15], [0, 0, 0, 4 + header.len() as u8 + 4, 0, 0, 0, header.len() as u8]);
    }

    #[test]
    fn wir_3_every_answer_is_marked_as_one() {
        for serialization in [Serialization::Json, Serialization::RocketMq] {
            for code in [0, 1, 22, 1500, -1000] {
                let mut out = Vec::new();
                encode_response(&mut out, serialization, 41, &Response::error(code, "why \"not\"\n"));
                let (head, body) = parsed(&out);
                assert!(head.is_response() && !head.is_oneway());
                assert_eq!((head.code, head.opaque, head.flag), (code, 41, FLAG_RESPONSE));
                assert_eq!((head.language, head.version), (Language::Java, version::CURRENT));
                assert_eq!(head.remark.unwrap().str(), "why \"not\"\n");
                assert_eq!(body, b"");
            }
        }
    }

    #[test]
    fn wir_3_bad_input_is_answered_with_its_reason() {
        let answer = Response::from(FieldError::Missing("topic"));
        assert_eq!(answer, Response::error(response::SYSTEM_ERROR, "the field `topic` is missing"));
        let answer = Response::not_supported(9999);
        assert_eq!(answer.remark.as_deref(), Some(" request type 9999 not supported"));
    }

    #[test]
    fn an_answer_too_long_for_a_frame_says_so() {
        let mut out = b"earlier".to_vec();
        let frame = ResponseFrame::begin(&mut out, Serialization::Json, 3, 0, None, |_| {});
        out.resize(7 + MAX_FRAME_LEN + 1, b'x');
        frame.finish(&mut out);
        let (head, _) = parsed(&out[7..]);
        assert_eq!((head.code, head.opaque), (response::SYSTEM_ERROR, 3));

        out.clear();
        let frame = ResponseFrame::begin(&mut out, Serialization::RocketMq, 3, 0, None, |_| {});
        out.resize(MAX_FRAME_LEN, b'x');
        frame.finish(&mut out);
        assert_eq!(parsed(&out).0.code, response::SUCCESS);
    }
}
