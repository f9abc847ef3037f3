//! Ciphers: who computes them, whether they are right, and how fast they are.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Choose, test and measure implementations of ciphers
///
/// A mechanism is something that is computed: aes-xts, sha256, record-aes-256-gcm (records of datasets). A
/// provider is an implementation of mechanisms: AWS-LC, the system's OpenSSL (in programs built with the
/// cargo feature openssl) and portable Rust. The first provider that has a mechanism and is not disabled
/// serves it.
///
/// STRONGROOM_HWCAP switches features of the processor off in one process, to compare and to test the slow
/// paths: -aes, -pclmul, -ssse3, -avx, -avx2, -avx512, -vaes, -vpclmul, -sha. It acts on AWS-LC and OpenSSL.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Who computes what, and why:
    strongroom crypto providers

  Test everything; without the AES instructions too:
    strongroom crypto selftest
    STRONGROOM_HWCAP=-aes,-pclmul,-avx512 strongroom crypto selftest

  XTS by the portable implementation from now on, and as before:
    strongroom crypto disable aws-lc/aes-xts
    strongroom crypto enable aws-lc/aes-xts")]
pub(crate) enum Crypto {
    Providers(CryptoProviders),
    Enable(CryptoChange),
    Disable(CryptoDisable),
    Selftest(CryptoSelftest),
    Bench(CryptoBench),
}

/// Show which provider serves each mechanism, and why
///
/// WHY says what decided: the first choice, or what stands against those before it. OTHERS has the
/// providers that would take over, in this order.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All of them:
    strongroom crypto providers

JSON
  {\"fips\", \"hardware\": {\"features\", \"disabled\"}, \"providers\": [{\"name\", \"description\", \"built\"}],
  \"mechanisms\": [{\"name\", \"provider\" or null, \"why\", \"approved\", \"providers\", \"disabled\"}]}")]
pub(crate) struct CryptoProviders {
    #[command(flatten)]
    pub(crate) place: StateDir,
}

/// Enable a provider or one of its mechanisms again; or FIPS mode
///
/// Holds for processes that start from now on. A daemon that runs keeps what it has: strongroom daemon stop.
///
/// With fips-140 only mechanisms that NIST approves can be used where a cipher is chosen: suites of datasets,
/// ciphers and hashes of other formats, password hashes. So datasets with XChaCha20-Poly1305, and keys from
/// passphrases (Argon2id), do not open; keys from files do. The approved mechanisms are tested before the
/// first use, once for each boot, each build of this program, and each choice of providers and instructions.
/// It makes no validated module of this program, whose pools hash, authenticate and derive keys with BLAKE3 as
/// well, which is not approved.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  What was disabled:
    strongroom crypto enable aws-lc/aes-xts

  Only approved mechanisms:
    strongroom crypto enable fips-140

EXIT CODES
  2 if there is no such provider or mechanism; 9 if the decisions cannot be read; 1 if a test fails.")]
pub(crate) struct CryptoChange {
    /// fips-140, or providers and mechanisms, as `crypto providers` shows them
    #[arg(value_name = "PROVIDER[/MECHANISM]", required = true)]
    pub(crate) targets: Vec<String>,
    #[command(flatten)]
    pub(crate) place: StateDir,
}

/// Disable a provider or one of its mechanisms; or FIPS mode
///
/// The next provider takes over, in processes that start from now on. A daemon that runs keeps what it has:
/// strongroom daemon stop. What only one provider has cannot be disabled.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  AES in XTS by the next provider:
    strongroom crypto disable aws-lc/aes-xts

  Any mechanism again:
    strongroom crypto disable fips-140

EXIT CODES
  2 if there is no such provider or mechanism; 5 if a mechanism would have no provider left.")]
pub(crate) struct CryptoDisable {
    #[command(flatten)]
    pub(crate) change: CryptoChange,
}

/// Test every mechanism of every provider
///
/// Each does work whose outcome is known, of sizes that reach the widest paths of the code; what was sealed
/// must open again, and where it is authenticated a changed bit must be noticed. In FIPS mode the approved
/// ones are tested.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All, and what fails if something does:
    strongroom crypto selftest

JSON
  [{\"mechanism\", \"provider\", \"ok\", \"micros\"}]

EXIT CODES
  1 if one is wrong; the message says which.")]
pub(crate) struct CryptoSelftest {
    #[command(flatten)]
    pub(crate) place: StateDir,
}

/// Measure ciphers and hashes, beside OpenSSL
///
/// One thread, in place, medians of several runs; MB/s are 10^6 bytes in a second of the thread's time. GENERIC is AWS-LC in a process
/// of its own with the processor's features switched off (STRONGROOM_HWCAP), FAST is AWS-LC with them,
/// PORTABLE is Rust, OPENSSL what the program openssl measures (`openssl speed`), if there is one, between
/// the runs. LIMIT is what one AES instruction a cycle would do; processors that do more pass it.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  The tables, and a chart:
    strongroom crypto bench --svg crypto.svg

JSON
  {\"hardware\", \"ghz\", \"openssl\", \"rows\": [{\"table\", \"name\", \"size\", \"generic\", \"portable\",
  \"fast\", \"openssl\": {\"median\", \"runs\"} or null, \"limit\"}]}, in MB/s")]
pub(crate) struct CryptoBench {
    /// Draw a chart, too
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// How often each is measured
    #[arg(long, value_name = "COUNT", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: u32,
    /// Measure this process alone: neither the generic path nor OpenSSL
    #[arg(long)]
    pub(crate) alone: bool,
}

#[derive(Args, Debug)]
pub(crate) struct StateDir {
    /// Where the decisions are kept; the daemon's usual state directory if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
}
