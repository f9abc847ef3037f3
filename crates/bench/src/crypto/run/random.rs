//! Random bytes: those of keys, and those of the kernel alone.

use cipher::{ENTROPY_MAX, Random, SystemRandom};
use console::outcome::{Outcome, Result};
use console::session::{other, usage};
use console::show::json;
use encoding::hex;
use serde_json::json;

use crate::crypto::args::CryptoRandom;

pub(super) fn run(args: &CryptoRandom, json: bool) -> Result {
    let mut bytes = vec![0; args.bytes as usize];
    if args.entropy && bytes.len() > ENTROPY_MAX {
        return Err(usage(format!(
            "--entropy gives at most {ENTROPY_MAX} bytes, as getentropy does; leave it out for more"
        )));
    }
    let (source, drawn) = match args.entropy {
        true => ("kernel", cipher::kernel_entropy(&mut bytes)),
        false => ("aws-lc and kernel", SystemRandom.fill(&mut bytes)),
    };
    drawn.map_err(|error| other(error.to_string()))?;
    let bytes = hex(&bytes);
    Ok(Outcome::text(match json {
        true => json::show(&json!({"source": source, "bytes": bytes})),
        false => format!("{bytes}\n"),
    }))
}
