//! HA frames against bytes of RocketMQ's own classes (the vectors of the store document).

use metaq::proto::ha::switch::{DataHeader, Epoch, MasterHandshake, SlaveHandshake};
use metaq::proto::ha::{plain, switch, Decoded, FrameError};
use metaq::proto::PhysicalOffset;

const END: PhysicalOffset = PhysicalOffset(0x4000_04d7);
const AT: PhysicalOffset = PhysicalOffset(0x4000_0400);

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn epochs() -> Vec<Epoch> {
    let epoch = |number, start| Epoch { number, start: PhysicalOffset(start) };
    vec![epoch(1, 0), epoch(3, 0x4000_00b0)]
}

/// Every part of a frame is incomplete, and what follows it is left alone.
fn whole<T: Clone + std::fmt::Debug + PartialEq>(
    bytes: &[u8],
    value: T,
    decode: fn(&[u8]) -> Result<Decoded<T>, FrameError>,
) {
    for part in 0..bytes.len() {
        assert_eq!(decode(&bytes[..part]), Ok(Decoded::Incomplete), "{part} bytes");
    }
    assert_eq!(decode(&[bytes, b"more"].concat()), Ok(Decoded::Frame(value, bytes.len())));
}

#[test]
fn plain_frames_are_rocketmq_s() {
    assert_eq!(plain::report(END).to_vec(), hex("00000000400004d7"));
    whole(&hex("00000000400004d7"), END, plain::decode_report);
    whole(&hex("0000000000000000"), PhysicalOffset(0), plain::decode_report);
    for (header, bytes) in [
        (plain::DataHeader { at: AT, size: 215 }, "0000000040000400 000000d7"),
        (plain::DataHeader { at: END, size: 0 }, "00000000400004d7 00000000"),
    ] {
        assert_eq!(header.encode().to_vec(), hex(bytes));
        whole(&hex(bytes), header, plain::DataHeader::decode);
    }
}

#[test]
fn switch_frames_are_rocketmq_s() {
    let slave = SlaveHandshake { sync_from_last_file: false, async_learner: false, broker_id: 2 };
    let learner = SlaveHandshake { sync_from_last_file: true, async_learner: true, broker_id: 3 };
    for (handshake, bytes) in
        [(slave, "00000001 0000 0000 0000000000000002"), (learner, "00000001 0001 0001 0000000000000003")]
    {
        assert_eq!(handshake.encode().to_vec(), hex(bytes));
        whole(&hex(bytes), handshake, SlaveHandshake::decode);
    }
    assert_eq!(switch::report(END).to_vec(), hex("00000002 00000000400004d7"));
    whole(&hex("00000002 00000000400004d7"), END, switch::decode_report);

    let master = MasterHandshake { end: END, epochs: epochs() };
    let bytes = hex("00000001 00000018 00000000400004d7 00000003 00000001 0000000000000000 00000003 00000000400000b0");
    assert_eq!(master.encode(), bytes);
    whole(&bytes, master, MasterHandshake::decode);

    let epoch = epochs()[1];
    let data = DataHeader { size: 215, at: AT, epoch, confirmed: AT };
    let heartbeat = DataHeader { size: 0, at: END, epoch, confirmed: END };
    for (header, bytes) in [
        (data, "00000002 000000d7 0000000040000400 00000003 00000000400000b0 0000000040000400"),
        (heartbeat, "00000002 00000000 00000000400004d7 00000003 00000000400000b0 00000000400004d7"),
    ] {
        assert_eq!(header.encode().to_vec(), hex(bytes));
        whole(&hex(bytes), header, DataHeader::decode);
    }
}

#[test]
fn other_bytes_are_errors() {
    assert!(plain::decode_report(&[0xFF; 8]).is_err());
    assert!(plain::DataHeader::decode(&[0xFF; 12]).is_err());
    assert!(SlaveHandshake::decode(&hex("00000001 0002 0000 0000000000000002")).is_err());
    assert!(SlaveHandshake::decode(&hex("00000002 0000 0000 0000000000000002")).is_err());
    assert!(switch::decode_report(&hex("00000001 00000000400004d7")).is_err());
    // A plain master's first frame is told from a handshake by its first four bytes.
    assert!(MasterHandshake::decode(&hex("0000000000000002 00000000")).is_err());
    for list in ["0000000d", "80000000", "00002ee6"] {
        assert!(MasterHandshake::decode(&hex(&format!("00000001 {list} 0000000000000000 00000000"))).is_err());
    }
    assert!(DataHeader::decode(&[0; 36]).is_err());
}
