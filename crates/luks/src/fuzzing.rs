//! Entry points of the fuzzer `fuzz/` that read headers.

use block::MemoryDevice;

use crate::header::luks2::HeaderCopy;
pub use crate::integrity::fuzzing::{journal, samples as integrity_samples, superblock};
use crate::{Container, Header};

/// The devices are this large: enough for most headers, and quickly made.
const DEVICE_LEN: usize = 1 << 20;

/// Reads what would be the beginning of a device, and everything that can be asked of a header.
pub fn header(bytes: &[u8]) {
    let mut image = bytes.to_vec();
    image.resize(DEVICE_LEN.max(bytes.len()), 0);
    let device = std::sync::Arc::new(MemoryDevice::from_bytes(image));
    let _ = crate::HeaderStage::find(&*device);
    if let Ok(container) = Container::look(device) {
        let _ = (
            container.dump(),
            container.dump_json(),
            container.segment(),
            container.slots(),
            container.data_offset(),
            container.reencryption_progress(container.device().as_ref()),
        );
        if let Header::V1(header) = container.header() {
            let encoded = header.encode();
            let same = encoded.len().min(bytes.len());
            assert_eq!(encoded[..same], bytes[..same]);
        }
    }
}

/// Reads a LUKS2 JSON area whose binary header and checksum are right.
pub fn json_area(json: &[u8]) {
    const COPY_LEN: usize = 0x4000;
    if json.len() > COPY_LEN - crate::header::luks2::BINARY_LEN {
        return;
    }
    header(&crate::header::luks2::sealed_copy(
        HeaderCopy::First,
        json,
        COPY_LEN,
    ));
}
