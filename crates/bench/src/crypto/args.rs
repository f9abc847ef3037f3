//! Ciphers: who computes them, whether they are right, and how fast they are.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

/// Choose, test and measure implementations of ciphers
///
/// A mechanism is a computation: aes-xts, sha256, record-aes-256-gcm (records of datasets). A provider
/// implements mechanisms: AWS-LC, ring (for AES-GCM of records, on processors with VAES without AVX-512),
/// the OpenSSL of the system (in programs built with the cargo feature openssl), the libgcrypt of the
/// system (for Twofish, if it is installed), and portable Rust. The first provider that has a mechanism
/// and is not disabled serves it.
///
/// STRONGROOM_HWCAP switches features of the processor off in one process, to compare and to test slow
/// paths: -aes, -pclmul, -ssse3, -avx, -avx2, -avx512, -vaes, -vpclmul, -sha. It acts on AWS-LC and
/// OpenSSL, and on whether ring is used: with -avx512 alone it may be. LD_HWCAP of Solaris does the same
/// for `crypto` and `luks benchmark`: -aes, -sha256 and other words that mean something here; the rest is
/// named and ignored.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Show which provider serves each mechanism, and why:
    strongroom crypto providers

  Test all mechanisms; the same without the AES instructions:
    strongroom crypto selftest
    STRONGROOM_HWCAP=-aes,-pclmul,-avx512 strongroom crypto selftest

  Use the portable implementation of XTS; use the fast one again:
    strongroom crypto disable aws-lc/aes-xts
    strongroom crypto enable aws-lc/aes-xts")]
pub enum Crypto {
    Providers(CryptoProviders),
    Enable(CryptoChange),
    Disable(CryptoDisable),
    Selftest(CryptoSelftest),
    Bench(CryptoBench),
    Random(CryptoRandom),
}

/// Show which provider serves each mechanism, and why
///
/// KEY is the length of the key in bits: a provider may have a cipher with some lengths only, or be slower
/// with others. WHY is the reason: the first choice, or why the providers before it are not used. OTHERS
/// lists the providers that would take over, in this order.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All mechanisms; and how fast they are on this machine:
    strongroom crypto providers
    strongroom crypto providers --rate

JSON
  {\"fips\", \"hardware\": {\"features\", \"disabled\"}, \"providers\": [{\"name\", \"description\", \"built\"}],
  \"mechanisms\": [{\"name\", \"key_bits\" or null, \"provider\" or null, \"why\", \"approved\", \"providers\",
  \"disabled\", \"mb_s\": with --rate, of ciphers and hashes}]}")]
pub struct CryptoProviders {
    /// Also measure each cipher and hash for a moment: 10^6 bytes a second on one thread, 128 KiB a call
    #[arg(long)]
    pub(crate) rate: bool,
    #[command(flatten)]
    pub(crate) place: StateDirArgs,
}

/// Enable a provider or mechanism again, or FIPS mode
///
/// Applies to processes that start later. Restart a running daemon: strongroom daemon stop.
///
/// With fips-140, only mechanisms that NIST approves can be chosen: suites of datasets, ciphers and hashes
/// of other formats, password hashes. New passphrases are hashed with PBKDF2 (HMAC-SHA-512). Datasets with
/// XChaCha20-Poly1305 do not open, nor do slots with Argon2id: replace their hash before, with
/// `strongroom key change --pbkdf pbkdf2`. The approved mechanisms are tested before the first use: once
/// for each boot, each build of this program, and each choice of providers and instructions.
///
/// FIPS mode does not make this program a validated module. Pools also hash, authenticate and derive keys
/// with BLAKE3, which is not approved.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A mechanism that was disabled:
    strongroom crypto enable aws-lc/aes-xts

  Only approved mechanisms:
    strongroom crypto enable fips-140

EXIT CODES
  1 if a test fails; 2 if there is no such provider or mechanism; 9 if the settings cannot be
  read.")]
pub struct CryptoChange {
    /// Providers and mechanisms as `crypto providers` shows them, or `fips-140`
    #[arg(value_name = "PROVIDER[/MECHANISM]", required = true)]
    pub(crate) targets: Vec<String>,
    #[command(flatten)]
    pub(crate) place: StateDirArgs,
}

/// Disable a provider or mechanism, or FIPS mode
///
/// The next provider takes over, in processes that start later. Restart a running daemon: strongroom daemon
/// stop. A mechanism that only one provider has cannot be disabled.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  AES in XTS by the next provider:
    strongroom crypto disable aws-lc/aes-xts

  End FIPS mode:
    strongroom crypto disable fips-140

EXIT CODES
  2 if there is no such provider or mechanism; 5 if a mechanism would have no provider left.")]
pub struct CryptoDisable {
    #[command(flatten)]
    pub(crate) change: CryptoChange,
}

/// Test every mechanism of every provider
///
/// Each mechanism computes known answers, in sizes that reach the widest paths of the code. Sealed data
/// must open again. Authenticated data must be refused after one bit changes. In FIPS mode only the
/// approved mechanisms are tested.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All mechanisms; prints the one that fails:
    strongroom crypto selftest

JSON
  [{\"mechanism\", \"provider\", \"ok\", \"micros\"}]

EXIT CODES
  1 if a mechanism is wrong; the message names it.")]
pub struct CryptoSelftest {
    #[command(flatten)]
    pub(crate) place: StateDirArgs,
}

/// A table of `crypto bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BenchTable {
    /// AES-128 in ECB, CTR, CBC and GCM, both ways, by the length of messages
    Modes,
    /// The same ciphers over aligned, unaligned and scattered data
    Layout,
    /// XTS by the length of sectors
    Xts,
    /// SHA-256 from 1 to 128 KiB, in nanoseconds
    Sha256,
    /// SHA-512, SHA3-256 and BLAKE3
    Hashes,
    /// The memory that decrypting 4 GiB takes
    Memory,
}

impl BenchTable {
    /// The name of the table in the command.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

impl CryptoBench {
    /// The tables that are wanted, in their order.
    pub(crate) fn tables(&self) -> Vec<BenchTable> {
        let all = BenchTable::value_variants().iter().copied();
        all.filter(|table| self.tables.is_empty() || self.tables.contains(table))
            .collect()
    }
}

/// Measure ciphers and hashes, beside OpenSSL
///
/// One thread, in place, medians of several runs. MB/s are 10^6 bytes per second of processor time. All
/// tables take some minutes, because `openssl speed` measures each line for a second in each run.
///
/// GENERIC is AWS-LC in a process with the features of the processor switched off (STRONGROOM_HWCAP). FAST
/// is AWS-LC with them. PORTABLE is Rust. OPENSSL is what the program openssl measures between the runs
/// (`openssl speed`), if there is one. LIMIT is the speed of one AES instruction per cycle; some processors
/// do more.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All tables, and a chart:
    strongroom crypto bench --svg crypto.svg

  XTS, and SHA-256 in nanoseconds:
    strongroom crypto bench xts sha256

JSON
  {\"hardware\", \"ghz\", \"openssl\", \"rows\": [{\"table\", \"name\", \"size\", \"generic\", \"portable\",
  \"fast\", \"openssl\": {\"median\", \"runs\"} or null, \"limit\"}] in MB/s,
  \"memory\": {\"message\", \"growth\" in bytes, \"seconds\"} or null}")]
pub struct CryptoBench {
    /// The tables; default: all
    #[arg(value_name = "TABLE", value_enum)]
    pub(crate) tables: Vec<BenchTable>,
    /// Also draw a chart into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// The number of runs of each measurement
    #[arg(long, value_name = "COUNT", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: u32,
    /// Measure this process only, without the generic path and OpenSSL
    #[arg(long)]
    pub(crate) alone: bool,
}

/// Print random bytes, in hexadecimal
///
/// They come from where keys and nonces come from: the generator of AWS-LC (CTR-DRBG of SP 800-90A) mixed
/// with the kernel's numbers, which are fresh for each draw.
///
/// With --entropy they come from the kernel alone (getrandom), as those of getentropy do: at most 256 bytes,
/// to seed another generator.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A nonce; a seed:
    strongroom crypto random 24
    strongroom crypto random --entropy 32

JSON
  {\"source\", \"bytes\"}

EXIT CODES
  1 if a source gives no numbers; 2 for more than 256 bytes of entropy.")]
pub struct CryptoRandom {
    /// From the kernel alone, for a seed
    #[arg(long)]
    pub(crate) entropy: bool,
    /// The number of bytes
    #[arg(value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(crate) bytes: u32,
}

#[derive(Args, Debug)]
pub struct StateDirArgs {
    /// The directory with the settings; default: that of the daemon at the socket
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
}
