//! The requests of webhooks.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs::default_provider;
use secret::Secret;
use serde_json::json;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::config::{WebhookForm, WebhookTarget, open_private};
use crate::message::{NoticeToPeople, SendResult, cut};

/// The time that a request may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest text, in bytes: ntfy makes a file of a longer one, and Matrix takes no event of 64 KiB.
const NTFY_MAX: usize = 3900;
const TEXT_MAX: usize = 30_000;
/// The greatest length of a token.
const TOKEN_MAX: usize = 4096;

/// A request: the address, its method, headers and body.
#[derive(Debug, PartialEq, Eq)]
struct WebhookRequest {
    url: String,
    is_put: bool,
    headers: Vec<(&'static str, String)>,
    body: String,
}

/// Sends a message to a webhook.
pub(crate) fn send(webhook: &WebhookTarget, notice: &NoticeToPeople) -> SendResult {
    let number = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos());
    let request = request(webhook, notice, number);
    let token = token(webhook)?;
    let agent = agent();
    let mut built = match request.is_put {
        true => agent.put(&request.url),
        false => agent.post(&request.url),
    };
    for (name, value) in &request.headers {
        built = built.header(*name, value);
    }
    if let Some(token) = &token {
        let token = str::from_utf8(token.expose()).map_err(|_| "the token is no text")?;
        built = built.header("Authorization", format!("Bearer {}", token.trim_end()));
    }
    let answered = built.send(request.body.as_bytes());
    // The text of a failure may have the address, which may be a secret.
    let response = answered.map_err(|error| match error {
        ureq::Error::Timeout(_) => "it does not answer in time".to_owned(),
        ureq::Error::HostNotFound => "there is no such host".to_owned(),
        ureq::Error::ConnectionFailed => "no connection".to_owned(),
        ureq::Error::Io(error) => format!("no connection: {}", error.kind()),
        ureq::Error::Rustls(error) => format!("TLS: {error}"),
        _ => "the request failed".to_owned(),
    })?;
    match response.status().as_u16() {
        200..=299 => Ok(()),
        status => Err(format!("it answers with status {status}")),
    }
}

/// The client. It trusts the authorities of the system, follows no redirects, and uses no proxy.
fn agent() -> Agent {
    let roots = rustls_native_certs::load_native_certs().certs;
    let roots: Vec<Certificate<'static>> = { roots.iter() }
        .map(|root| Certificate::from_der(root.as_ref()).to_owned())
        .collect();
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .proxy(None)
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_global(Some(PATIENCE))
        .user_agent("strongroom")
        .build()
        .into()
}

fn token(webhook: &WebhookTarget) -> Result<Option<Secret>, String> {
    let Some(path) = &webhook.token_file else {
        return Ok(None);
    };
    let shown = path.display();
    let file = open_private(path).map_err(|failure| failure.message)?;
    let token = Secret::from_reader(&mut &file, TOKEN_MAX);
    let token = token.map_err(|error| format!("cannot read '{shown}': {error}"))?;
    Ok(Some(token))
}

/// Makes the request. `number` is another one for each message.
fn request(webhook: &WebhookTarget, notice: &NoticeToPeople, number: u128) -> WebhookRequest {
    let whole = format!("{}\n\n{}", notice.title, cut(&notice.text, TEXT_MAX));
    let json_of = |body: serde_json::Value| WebhookRequest {
        url: webhook.url.clone(),
        is_put: false,
        headers: vec![("Content-Type", "application/json".to_owned())],
        body: body.to_string(),
    };
    match webhook.form {
        WebhookForm::Json => json_of(json!(notice)),
        // Slack reads the first three characters as its own marks. Mattermost calls people by the fourth, unless nothing
        // that it shows follows.
        WebhookForm::Slack => {
            let marks = [
                ("&", "&amp;"),
                ("<", "&lt;"),
                (">", "&gt;"),
                ("@", "@\u{200b}"),
            ];
            let text = marks
                .iter()
                .fold(whole, |text, (mark, shown)| text.replace(mark, shown));
            json_of(json!({"text": text}))
        }
        // Each message has a number of its own (client-server API, "Sending events to a room").
        WebhookForm::Matrix => WebhookRequest {
            url: format!("{}/strongroom{number}", webhook.url.trim_end_matches('/')),
            is_put: true,
            ..json_of(json!({"msgtype": "m.text", "body": whole}))
        },
        WebhookForm::Ntfy => {
            let (priority, tag) = match (notice.is_critical, notice.problems.is_empty()) {
                (true, _) => ("urgent", "rotating_light"),
                (false, false) => ("high", "warning"),
                (false, true) => ("default", "white_check_mark"),
            };
            let headers = [
                ("Title", &*notice.title),
                ("Priority", priority),
                ("Tags", tag),
            ];
            WebhookRequest {
                url: webhook.url.clone(),
                is_put: false,
                headers: headers.map(|(name, value)| (name, value.to_owned())).into(),
                body: cut(&notice.text, NTFY_MAX),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::CurrentProblem;
    use crate::record::News;

    fn notice() -> NoticeToPeople {
        let news = News {
            new: vec![CurrentProblem {
                pool: Some("tank".into()),
                subject: "damage".into(),
                is_critical: true,
                text: "damaged: /a\n<!channel>\u{1b}[2J".into(),
                action: None,
            }],
            ..News::default()
        };
        NoticeToPeople::of_news("vault", news).unwrap()
    }

    fn made(form: WebhookForm) -> WebhookRequest {
        let webhook = WebhookTarget {
            url: "https://chat.example/x".into(),
            form,
            token_file: None,
        };
        request(&webhook, &notice(), 7)
    }

    #[test]
    fn names_of_files_give_no_orders() {
        assert_eq!(
            notice().title,
            "strongroom on vault: CRITICAL: tank needs attention"
        );
        let line = r"- CRITICAL: tank: damaged: /a\n<!channel>\u{1b}[2J";
        assert!(notice().text.contains(line), "{}", notice().text);
        let slack = made(WebhookForm::Slack).body;
        assert!(
            slack.contains("&lt;!channel&gt;") && !slack.contains("<!"),
            "{slack}"
        );
    }

    #[test]
    fn each_form_has_its_request() {
        let ntfy = made(WebhookForm::Ntfy);
        assert_eq!(ntfy.headers[1], ("Priority", "urgent".to_owned()));
        let matrix = made(WebhookForm::Matrix);
        assert_eq!(
            (matrix.url.as_str(), matrix.is_put),
            ("https://chat.example/x/strongroom7", true)
        );
        let json: serde_json::Value = serde_json::from_str(&made(WebhookForm::Json).body).unwrap();
        assert_eq!(json["problems"][0]["pool"], "tank");
        assert_eq!(json["is_critical"], true);
        assert_eq!(cut(&"\u{e4}".repeat(3000), NTFY_MAX).len(), NTFY_MAX);
    }
}
