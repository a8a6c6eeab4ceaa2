//! MD5 (RFC 1321): not for security, but every member of a group has to find the same place on the ring of
//! consistent hashing.

/// Rotations of the four rounds.
const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
const START: [u32; 4] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];
const BLOCK: usize = 64;

/// The digest of `bytes`.
pub fn md5(bytes: &[u8]) -> [u8; 16] {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    while padded.len() % BLOCK != BLOCK - 8 {
        padded.push(0);
    }
    // The length in bits, lowest byte first.
    let bits = (bytes.len() as u64).wrapping_mul(8);
    padded.extend((0..8).map(|place| (bits >> (8 * place)) as u8));
    let mut state = START;
    padded.chunks_exact(BLOCK).for_each(|block| mix(&mut state, block));
    let mut digest = [0; 16];
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = (state[at / 4] >> (8 * (at % 4))) as u8;
    }
    digest
}

fn mix(state: &mut [u32; 4], block: &[u8]) {
    let word = |at: usize| (0..4).rev().fold(0, |word, place| word << 8 | u32::from(block[4 * at + place]));
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..BLOCK {
        let (mixed, at) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
            2 => (b ^ c ^ d, (3 * step + 5) % 16),
            _ => (c ^ (b | !d), (7 * step) % 16),
        };
        let sum = a.wrapping_add(mixed).wrapping_add(constant(step)).wrapping_add(word(at));
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(ROTATIONS[step / 16][step % 4]));
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(add);
    }
}

/// 2^32 · |sin(step + 1)|, cut to an integer.
fn constant(step: usize) -> u32 {
    (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_rfc() {
        for (text, expected) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            let digest: String = md5(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digest, expected, "{text}");
        }
    }
}
