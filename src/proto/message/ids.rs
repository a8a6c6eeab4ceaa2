//! Message ids that a broker makes: where a record lies, as hex digits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::proto::PhysicalOffset;

/// Digits of an offset message id of a broker with an IPv4 address.
pub const OFFSET_ID_V4_LEN: usize = 32;
/// Digits of an offset message id of a broker with an IPv6 address.
pub const OFFSET_ID_V6_LEN: usize = 56;

/// Why a text is not an offset message id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{id}` is no offset message id: it has to have 32 or 56 hex digits")]
pub struct IdError {
    /// The text.
    pub id: String,
}

/// The offset message id of the record at `at` of the broker reached at `host`: address, i32 port and i64 offset in
/// upper-case hex. Clients find a message's broker from it.
pub fn offset_message_id(host: SocketAddr, at: PhysicalOffset) -> String {
    let mut id = String::with_capacity(OFFSET_ID_V6_LEN);
    push_offset_message_id(&mut id, host, at);
    id
}

/// Appends an offset message id; those of a batch are joined by `,`.
pub fn push_offset_message_id(out: &mut String, host: SocketAddr, at: PhysicalOffset) {
    push_address(out, host.ip());
    push_hex(out, u64::from(host.port()), 8);
    push_hex(out, at.0, 16);
}

/// Appends an address in upper-case hex, 8 or 32 digits.
pub(super) fn push_address(out: &mut String, address: IpAddr) {
    match address {
        IpAddr::V4(address) => push_hex(out, u64::from(address.to_bits()), 8),
        IpAddr::V6(address) => {
            push_hex(out, (address.to_bits() >> 64) as u64, 16);
            push_hex(out, address.to_bits() as u64, 16);
        }
    }
}

/// Appends the last `digits` digits of a number in upper-case hex, 16 at most, without the formatting machinery and in one
/// piece: one or two ids are made per message.
pub(super) fn push_hex(out: &mut String, value: u64, digits: usize) {
    const DIGITS: [u8; 16] = *b"0123456789ABCDEF";
    let text: [u8; 16] = std::array::from_fn(|at| DIGITS[(value >> (60 - 4 * at)) as usize & 0xF]);
    out.push_str(std::str::from_utf8(&text[16 - digits.min(16)..]).unwrap_or_default());
}

/// Takes an offset message id apart. Digits may be of either case.
pub fn parse_offset_message_id(id: &str) -> Result<(SocketAddr, PhysicalOffset), IdError> {
    parse(id).ok_or_else(|| IdError { id: id.chars().take(64).collect() })
}

fn parse(id: &str) -> Option<(SocketAddr, PhysicalOffset)> {
    // from_str_radix takes a sign, an id has none.
    if !id.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let (address, rest): (IpAddr, &str) = match id.len() {
        OFFSET_ID_V4_LEN => (Ipv4Addr::from_bits(u32::from_str_radix(&id[..8], 16).ok()?).into(), &id[8..]),
        OFFSET_ID_V6_LEN => (Ipv6Addr::from_bits(u128::from_str_radix(&id[..32], 16).ok()?).into(), &id[32..]),
        _ => return None,
    };
    let port = u32::from_str_radix(&rest[..8], 16).ok()?;
    let offset = u64::from_str_radix(&rest[8..], 16).ok()?;
    Some((SocketAddr::new(address, u16::try_from(port).ok()?), PhysicalOffset(offset)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_both_families() {
        let v4 = ("10.0.0.5:10911", 0x4000_0400, "0A00000500002A9F0000000040000400");
        let v6 = ("[2001:db8::1]:10911", 0x2000, "20010DB800000000000000000000000100002A9F0000000000002000");
        for (host, at, id) in [v4, v6] {
            let (host, at) = (host.parse().unwrap(), PhysicalOffset(at));
            assert_eq!(offset_message_id(host, at), id);
            assert_eq!(parse_offset_message_id(id), Ok((host, at)));
            assert_eq!(parse_offset_message_id(&id.to_lowercase()), Ok((host, at)));
        }
    }

    #[test]
    fn other_texts_are_errors() {
        for id in ["", "0A", "+A00000500002A9F0000000040000400", "0A00000500FF2A9F0000000040000400", "ää"] {
            assert!(parse_offset_message_id(id).is_err(), "{id}");
        }
        let client_id = "7F00000100002A9F4F1B0000A1B20001";
        assert_eq!(parse_offset_message_id(client_id).map(|(_, at)| at.0), Ok(0x4F1B_0000_A1B2_0001));
    }
}
