//! Sense data (SPC-4, section 4.5).

use zerocopy::byteorder::big_endian::U32;

layouts! {
    /// The fixed format.
    FixedSense: 18 {
        format: u8, segment: u8, key: u8, information: U32, additional_len: u8, of_command: U32, code: u8, qualifier: u8,
        unit: u8, of_key: [u8; 3],
    }
    /// The descriptor format, without descriptors.
    DescriptorSense: 8 { format: u8, key: u8, code: u8, qualifier: u8, reserved: [u8; 3], additional_len: u8, }
}
