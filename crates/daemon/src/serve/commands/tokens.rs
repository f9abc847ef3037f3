//! Tokens, and who the caller is.

use protocol::api::Reply;

use super::done;
use crate::serve::authorize::only_root;
use crate::serve::zones::NameEffect;
use crate::state::zones::rules::refused;

serve!(
    Whoami,
    |_| NameEffect::AsItIs,
    |_, check| check.something_anywhere(true),
    |_, _| Ok(()),
    |_, daemon, context| Ok(Reply::Caller(daemon.caller(context)))
);

serve!(
    TokenCreate,
    |_| NameEffect::AsItIs,
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
    |_, check| check.something_anywhere(true),
    |_, _| Err(refused()),
    |_, daemon, context| Ok(Reply::Tokens(daemon.token_rows(&context.peer)))
);

serve!(
    TokenRevoke,
    |_| NameEffect::AsItIs,
    |_, check| check.something_anywhere(true),
    |_, _| Err(refused()),
    |it, daemon, context| daemon.revoke_token(&it.id, &context.peer).map(done)
);
