//! Permissions of users and groups, as of `zfs allow`.

use clap::Args;

/// Give permissions to users and groups, or show permissions
///
/// Root and the user of the daemon may do everything. `allow` gives other users permissions on a dataset and on
/// all datasets below it; -l and -d choose one of the two. These users use the socket of root's daemon:
/// --socket /run/strongroom/socket. The pool stores permissions in the clear, where no key is needed.
///
/// Permissions are create, destroy, rename (these need mount too), mount, snapshot, rollback, clone, promote,
/// hold, release, send (without -w, and for a dataset without encryption, it needs key too), receive, key (load
/// and unload), keychange (remove and rotate; change and add need key too), userprop (properties with a colon),
/// allow (give own permissions to others), userused, userobjused, userquota, userobjquota, the same for groups
/// (see `strongroom userspace`), and the names of properties that can be set. receive also needs create and
/// mount, on the dataset above for a new dataset; with -F it also needs rollback and destroy.
///
/// Without the permission `keysource`, keys can only be typed. Without `mountpoint`, a dataset mounts at its
/// inherited place. When a user receives a stream, only properties that the user may set are taken from it. Without
/// `setuid` and `devices`, both are off in the received dataset. A command that wraps data keys with another wrapping
/// key needs key and keychange on each dataset with these data keys. A clone with another key than its origin needs
/// this too. With `keysource`, the daemon reads a key for a copy only if the user has the permission key on the
/// dataset from which the copy has its data keys. diff shows the names of all files. A user without permissions
/// cannot send any command.
///
/// -s gives a name to a set of permissions. The name can be used on that dataset and below; a change of the set
/// applies at once. -c gives permissions to a user who creates a dataset below, on that new dataset only. Only
/// root can use both.
#[derive(Args, Debug)]
#[command(
    override_usage = "strongroom allow DATASET\n       \
                      strongroom allow [-l] [-d] [-u|-g] WHO,... PERMISSION,... DATASET\n       \
                      strongroom allow [-l] [-d] -e PERMISSION,... DATASET\n       \
                      strongroom allow -c PERMISSION,... DATASET\n       \
                      strongroom allow -s @SET PERMISSION,... DATASET",
    after_help = "\
EXAMPLES
  Show the permissions, and where they come from:
    strongroom allow tank/home/ann

  A user creates and destroys own datasets:
    strongroom allow ann create,destroy,mount,snapshot,rollback tank/home/ann

  Operators load keys; security officers also change them:
    strongroom allow -g operators key,mount tank
    strongroom allow -g officers key,keychange tank

  All users, but only on datasets below:
    strongroom allow -d -e snapshot tank/home

  Members of a group create datasets, and destroy those that they created:
    strongroom allow -g staff create,mount tank/projects
    strongroom allow -c destroy,snapshot,rollback tank/projects

  A set of permissions, for a group:
    strongroom allow -s @basic create,mount,snapshot tank
    strongroom allow -g staff @basic tank/home

JSON
  [{\"dataset\", \"scope\": local|descendent|local+descendent|create|set, \"kind\":
  user|group|everyone|creator|set, \"name\", \"permissions\": [PERMISSION, ...]}, ...]; those of the
  dataset first, then those of the datasets above.

EXIT CODES
  2 for an unknown permission; 3 if there is no such dataset, user or group; 6 if this is not
  allowed."
)]
pub(crate) struct Allow {
    #[command(flatten)]
    pub(crate) how: DelegationScope,
    /// Users or groups, permissions, and a dataset; a dataset alone shows its permissions
    #[arg(value_name = "WHO|PERMISSION|DATASET", num_args = 1..=3, required = true)]
    pub(crate) words: Vec<String>,
}

/// Take permissions away
///
/// Removes permissions that `allow` gave; all of them if none is named. Remove permissions of a dataset
/// above there.
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

  All permissions of a group:
    strongroom unallow -g operators tank

EXIT CODES
  2 for an unknown permission; 3 if there is no such dataset, user or group; 6 if this is not
  allowed."
)]
pub(crate) struct Unallow {
    #[command(flatten)]
    pub(crate) how: DelegationScope,
    /// Users or groups, permissions, and a dataset
    #[arg(value_name = "WHO|PERMISSION|DATASET", num_args = 1..=3, required = true)]
    pub(crate) words: Vec<String>,
}

/// The users or groups, and the datasets.
#[derive(Args, Debug)]
pub(crate) struct DelegationScope {
    /// Only on the dataset itself
    #[arg(short)]
    pub(crate) local: bool,
    /// Only on datasets below
    #[arg(short)]
    pub(crate) descendent: bool,
    /// The names are users
    #[arg(short, conflicts_with_all = ["group", "everyone"])]
    pub(crate) user: bool,
    /// The names are groups
    #[arg(short, conflicts_with = "everyone")]
    pub(crate) group: bool,
    /// All users of the machine
    #[arg(short)]
    pub(crate) everyone: bool,
    /// The user who creates a dataset below, on that dataset
    #[arg(short, conflicts_with_all = ["user", "group", "everyone", "local", "descendent"])]
    pub(crate) creator: bool,
    /// The name is a set of permissions
    #[arg(short, conflicts_with_all = ["user", "group", "everyone", "local", "descendent", "creator"])]
    pub(crate) set: bool,
}
