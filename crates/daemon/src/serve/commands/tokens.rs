//! Tokens, and who the caller is.

use protocol::api::Reply;

use super::done;
use super::line::HistoryText;
use crate::serve::authorize::only_root;
use crate::serve::zones::NameEffect;
use crate::state::zones::rules::refused;

fn list(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| names.join(","))
}

serve!(
    Whoami,
    |_| NameEffect::AsItIs,
    |_| HistoryText::new("whoami"),
    |_, check| check.something_anywhere(true),
    |_, _| Ok(()),
    |_, daemon, context| Ok(Reply::Caller(daemon.caller(context)))
);

serve!(
    TokenCreate,
    |_| NameEffect::AsItIs,
    |it| HistoryText::new("web token create")
        .option("--commands", list(&it.scope.commands))
        .option("--dataset", it.scope.dataset.as_ref())
        .option("--label", Some(&it.label))
        .flag("--read-only", it.scope.read_only)
        .option("--user", it.user.as_ref())
        .option("--zone", it.zone.as_ref()),
    |it, check| match (&it.user, &it.zone) {
        (None, None) => match &it.scope.dataset {
            Some(name) => check.something_of(name),
            None => check.something_anywhere(true),
        },
        _ => Err(only_root()),
    },
    |_, _| Err(refused()),
    |it, daemon, context| daemon.create_token(it, context).map(Reply::Token)
);

serve!(
    Tokens,
    |_| NameEffect::AsItIs,
    |_| HistoryText::new("web token list"),
    |_, check| check.something_anywhere(true),
    |_, _| Err(refused()),
    |_, daemon, context| Ok(Reply::Tokens(daemon.token_rows(&context.peer)))
);

serve!(
    TokenRevoke,
    |_| NameEffect::AsItIs,
    |it| HistoryText::new("web token revoke").word(&it.id),
    |_, check| check.something_anywhere(true),
    |_, _| Err(refused()),
    |it, daemon, context| daemon.revoke_token(&it.id, &context.peer).map(done)
);
