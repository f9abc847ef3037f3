//! Who may do what: what `zfs allow` does.

use clap::Args;

/// Say who may do what, or show it
///
/// Root, and the user who runs the daemon, may do everything. Others may do what is allowed to them here, on a
/// dataset and, unless -l says otherwise, on all below it. They use the socket of root's daemon, as with
/// --socket /run/strongroom/socket. What is allowed is stored in the pool, where it can be read without a key.
///
/// Permissions are create, destroy, rename (these take mount as well), mount, snapshot, rollback, clone,
/// promote, hold, release, send (without -w it takes key as well), receive (takes create and mount as well, on the
/// dataset above if what comes makes one; -F takes rollback and destroy), key (load and unload), keychange (remove,
/// rotate; change and add take key as well), userprop (properties that users make up), allow (give on what one has oneself), userused,
/// userobjused, userquota, userobjquota and those of groups (see `strongroom userspace`), and the names of
/// properties that can be set. Without `keysource` keys can only be typed; without `mountpoint` a dataset
/// mounts where it inherits to. What somebody receives who may not set `setuid` and `devices` has both off, and
/// brings no property that he may not set. A command that puts data keys under another wrapping key takes key and
/// keychange on each dataset that they come from: so does a clone that has another key than its origin. diff shows the names of all files. A user to whom nothing is allowed
/// cannot even ask.
///
/// With -s permissions get a name, which stands for them in what is allowed on that dataset and below; a change
/// of the set changes that at once. With -c whoever makes a dataset below may do this to it, and only to it.
/// Both are for root to say.
#[derive(Args, Debug)]
#[command(
    override_usage = "strongroom allow DATASET\n       \
                      strongroom allow [-l] [-d] [-u|-g] WHO,... PERMISSION,... DATASET\n       \
                      strongroom allow [-l] [-d] -e PERMISSION,... DATASET\n       \
                      strongroom allow -c PERMISSION,... DATASET\n       \
                      strongroom allow -s @SET PERMISSION,... DATASET",
    after_help = "\
EXAMPLES
  What is allowed, and where that is said:
    strongroom allow tank/home/ann

  A user who makes and destroys datasets of her own:
    strongroom allow ann create,destroy,mount,snapshot,rollback tank/home/ann

  Operators who may load keys, and security officers who may change them as well:
    strongroom allow -g operators key,mount tank
    strongroom allow -g officers key,keychange tank

  Everybody, but only below:
    strongroom allow -d -e snapshot tank/home

  A group whose members make datasets, and may destroy those that they have made:
    strongroom allow -g staff create,mount tank/projects
    strongroom allow -c destroy,snapshot,rollback tank/projects

  A set of permissions, and a group that has it:
    strongroom allow -s @basic create,mount,snapshot tank
    strongroom allow -g staff @basic tank/home

JSON
  [{\"dataset\", \"scope\": local|descendent|local+descendent|create|set, \"kind\":
  user|group|everyone|creator|set, \"name\", \"permissions\": [PERMISSION, ...]}, ...], its own first,
  then those of the datasets above.

EXIT CODES
  2 for a permission that is not known; 3 if there is no such dataset, user or group; 6 if this is
  not allowed."
)]
pub(crate) struct Allow {
    #[command(flatten)]
    pub(crate) how: Delegated,
    /// Whom, what, and on which dataset; a dataset alone is shown
    #[arg(value_name = "WHO|PERMISSION|DATASET", num_args = 1..=3, required = true)]
    pub(crate) words: Vec<String>,
}

/// Allow something no longer
///
/// Takes away what `allow` gave, all of it if no permission is named. What is allowed on a dataset above is
/// taken away there.
#[derive(Args, Debug)]
#[command(
    override_usage = "strongroom unallow [-l] [-d] [-u|-g] WHO,... [PERMISSION,...] DATASET\n       \
                      strongroom unallow [-l] [-d] -e [PERMISSION,...] DATASET\n       \
                      strongroom unallow -c [PERMISSION,...] DATASET\n       \
                      strongroom unallow -s @SET [PERMISSION,...] DATASET",
    after_help = "\
EXAMPLES
  One permission:
    strongroom unallow ann destroy tank/home/ann

  Everything that a group may do:
    strongroom unallow -g operators tank

EXIT CODES
  2 for a permission that is not known; 3 if there is no such dataset, user or group; 6 if this is
  not allowed."
)]
pub(crate) struct Unallow {
    #[command(flatten)]
    pub(crate) how: Delegated,
    /// Whom, what, and on which dataset
    #[arg(value_name = "WHO|PERMISSION|DATASET", num_args = 1..=3, required = true)]
    pub(crate) words: Vec<String>,
}

/// Whom, and where.
#[derive(Args, Debug)]
pub(crate) struct Delegated {
    /// On the dataset itself only
    #[arg(short)]
    pub(crate) local: bool,
    /// Below the dataset only
    #[arg(short)]
    pub(crate) descendent: bool,
    /// The names are those of users
    #[arg(short, conflicts_with_all = ["group", "everyone"])]
    pub(crate) user: bool,
    /// The names are those of groups
    #[arg(short, conflicts_with = "everyone")]
    pub(crate) group: bool,
    /// Everybody on the machine
    #[arg(short)]
    pub(crate) everyone: bool,
    /// Whoever makes a dataset below, on that dataset
    #[arg(short, conflicts_with_all = ["user", "group", "everyone", "local", "descendent"])]
    pub(crate) creator: bool,
    /// The name is that of a set of permissions
    #[arg(short, conflicts_with_all = ["user", "group", "everyone", "local", "descendent", "creator"])]
    pub(crate) set: bool,
}
