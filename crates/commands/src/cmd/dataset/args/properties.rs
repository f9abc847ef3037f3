//! The reference of properties.

use clap::Args;
use console::show::properties;

const EXAMPLES: &str = "\
EXAMPLES
  All properties, in a table:
    strongroom properties

  What is known of two properties:
    strongroom properties compression quota";

/// Explain properties: values, defaults, and who may set them
///
/// Without a name it prints a table of all properties of datasets. `strongroom help properties` and the
/// manual page strongroom-properties(1) contain the whole reference, and `strongroom help property NAME` a
/// part of it. All of it is made from the table that `set` and `get` use. The command needs no daemon.
///
/// Two kinds of properties are not in the table. A property with a colon in its name, such as
/// org.example:owner, is yours. Those of users and groups, such as userquota@ann, are explained by
/// `strongroom help userspace`.
#[derive(Args, Debug)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("\
{EXAMPLES}

PROPERTIES
{}

JSON
  [{{\"name\", \"short\", \"help\", \"has\", \"values\", \"default\", \"set\", \"tenant\", \"inherits\",
  \"of_snapshots\", \"who\", \"since\"}}]

EXIT CODES
  3 if there is no such property.", properties::reference()))]
pub(crate) struct Properties {
    /// Properties, by their whole or short names; default: all
    #[arg(value_name = "PROPERTY")]
    pub(crate) names: Vec<String>,
}
