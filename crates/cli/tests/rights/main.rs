//! Rights of delegates, tenants and other users.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/servers/web.rs"]
mod site;

mod delegation;
mod jobs;
mod other_users;
mod small_requests;
mod zones;
