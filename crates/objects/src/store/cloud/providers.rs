//! The buckets of Amazon, Google and Microsoft, and those of others with their interfaces.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::{BackoffConfig, ClientOptions, RetryConfig, StaticCredentialProvider};

use crate::store::address::StoreAddress;
use crate::store::cloud::bucket::Bucket;
use crate::store::cloud::profile::{ProfileCredentials, SharedProfile};
use crate::store::cloud::tls;
use crate::store::cloud::transport::StoreConnector;
use crate::store::cloud::variables::Variables;
use crate::store::interface::ObjectStore;
use crate::{Error, Result};

/// The settings of object_store that are made here.
const OWN_SETTINGS: [&str; 7] = [
    "AWS_BUCKET",
    "AWS_BUCKET_NAME",
    "AWS_CONDITIONAL_PUT",
    "AWS_ENDPOINT",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_UNSIGNED_PAYLOAD",
];

/// A bucket of Amazon S3, or of a store with its interface.
pub(crate) fn s3(address: &StoreAddress, variables: &Variables) -> Result<Arc<dyn ObjectStore>> {
    let unusable = |reason: String| unusable(address, variables, &reason);
    let profile = match has_own_credentials(variables) {
        // Region and endpoint of a profile belong to its key.
        true => None,
        false => Some(SharedProfile::read(variables).map_err(unusable)?),
    };
    let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
        .iter()
        .find_map(|name| variables.get(name))
        .or(profile
            .as_ref()
            .and_then(|profile| profile.endpoint.as_deref()));
    if let Some(endpoint) = endpoint {
        check_endpoint("AWS_ENDPOINT_URL", endpoint).map_err(unusable)?;
    }
    let is_http = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    if is_http && !variables.is_on("AWS_ALLOW_HTTP") {
        return Err(unusable(
            "AWS_ENDPOINT_URL has no encryption; use https, or allow http with AWS_ALLOW_HTTP=true"
                .into(),
        ));
    }
    let authorities = variables.get("AWS_CA_BUNDLE").map(Path::new);
    let mut builder = AmazonS3Builder::new();
    for (name, value) in variables.with_prefix("AWS_") {
        if let Ok(key) = name.to_ascii_lowercase().parse()
            && !OWN_SETTINGS.contains(&name)
        {
            builder = builder.with_config(key, value);
        }
    }
    if let Some(profile) = &profile {
        if let Some(region) = &profile.region
            && variables
                .get("AWS_REGION")
                .or(variables.get("AWS_DEFAULT_REGION"))
                .is_none()
        {
            builder = builder.with_region(region);
        }
        match &profile.credentials {
            Some(credentials) => {
                builder = builder.with_credentials(Arc::<ProfileCredentials>::clone(credentials));
            }
            None if variables.is_on("AWS_EC2_METADATA_DISABLED") => {
                return Err(unusable(
                    "there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write a profile in ~/.aws/credentials".into(),
                ));
            }
            None => {}
        }
    }
    builder = match endpoint {
        Some(endpoint) => builder.with_endpoint(endpoint),
        // A name with dots does not fit the certificate of Amazon.
        None if variables.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST").is_none() => {
            builder.with_virtual_hosted_style_request(!address.bucket.contains('.'))
        }
        None => builder,
    };
    let store = builder
        .with_bucket_name(&address.bucket)
        .with_allow_http(is_http)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_disable_bulk_delete(true)
        // Over https TLS vouches for the bytes already.
        .with_unsigned_payload(!is_http)
        .with_retry(no_repetition())
        .with_http_connector(StoreConnector::new(
            tls::settings(authorities).map_err(unusable)?,
        ))
        .build()
        .map_err(|error| unusable(error.to_string()))?;
    Ok(Arc::new(Bucket::new(address, store)))
}

/// The environment has a key, or says where the machine has one.
fn has_own_credentials(variables: &Variables) -> bool {
    let is_set = |name: &&str| variables.get(name).is_some();
    ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
        .iter()
        .any(is_set)
        || variables.is_on("AWS_SKIP_SIGNATURE")
        || variables.get("AWS_PROFILE").is_none()
            && [
                "AWS_WEB_IDENTITY_TOKEN_FILE",
                "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            ]
            .iter()
            .any(is_set)
}

/// A bucket of Google Cloud Storage.
pub(crate) fn gcs(address: &StoreAddress, variables: &Variables) -> Result<Arc<dyn ObjectStore>> {
    let unusable = |reason: String| unusable(address, variables, &reason);
    let mut builder = GoogleCloudStorageBuilder::new();
    for (name, value) in variables.with_prefix("GOOGLE_") {
        if let Ok(key) = name.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    let mut options = ClientOptions::new().with_allow_http(variables.is_on("GOOGLE_ALLOW_HTTP"));
    if let Some(emulator) = variables.get("STORAGE_EMULATOR_HOST") {
        let endpoint = match emulator.contains("://") {
            true => emulator.to_owned(),
            false => format!("http://{emulator}"),
        };
        check_endpoint("STORAGE_EMULATOR_HOST", &endpoint).map_err(unusable)?;
        // The library signs some requests even if told not to, and would ask this machine for credentials.
        let nobody = GcpCredential {
            bearer: "emulator".into(),
        };
        builder = builder
            .with_base_url(&endpoint)
            .with_credentials(Arc::new(StaticCredentialProvider::new(nobody)));
        options = options.with_allow_http(true);
    }
    let store = builder
        .with_bucket_name(&address.bucket)
        .with_client_options(options)
        .with_retry(no_repetition())
        .with_http_connector(StoreConnector::new(tls::settings(None).map_err(unusable)?))
        .build()
        .map_err(|error| unusable(error.to_string()))?;
    Ok(Arc::new(Bucket::new(address, store)))
}

/// A container of Azure Blob Storage.
pub(crate) fn azure(address: &StoreAddress, variables: &Variables) -> Result<Arc<dyn ObjectStore>> {
    let unusable = |reason: String| unusable(address, variables, &reason);
    let mut builder = MicrosoftAzureBuilder::new();
    for (name, value) in variables.with_prefix("AZURE_") {
        if let Ok(key) = name.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    if let Some(endpoint) = variables.get("AZURE_STORAGE_ENDPOINT") {
        check_endpoint("AZURE_STORAGE_ENDPOINT", endpoint).map_err(unusable)?;
    }
    let store = builder
        .with_container_name(&address.bucket)
        .with_allow_http(variables.is_on("AZURE_ALLOW_HTTP"))
        .with_retry(no_repetition())
        .with_http_connector(StoreConnector::new(tls::settings(None).map_err(unusable)?))
        .build()
        .map_err(|error| unusable(error.to_string()))?;
    Ok(Arc::new(Bucket::new(address, store)))
}

/// Refuses an address of a server with credentials, or one that is no address.
fn check_endpoint(variable: &str, endpoint: &str) -> std::result::Result<(), String> {
    let uri: http::Uri = endpoint
        .parse()
        .map_err(|_| format!("{variable} is no address; write https://HOST:PORT"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
        return Err(format!("{variable} is no address; write https://HOST:PORT"));
    }
    match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => Err(format!(
            "{variable} has a user or a password; credentials have variables of their own"
        )),
        _ => Ok(()),
    }
}

/// The callers repeat requests, because only they know the meaning of a lost answer.
fn no_repetition() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: 0,
        retry_timeout: Duration::ZERO,
    }
}

fn unusable(address: &StoreAddress, variables: &Variables, reason: &str) -> Error {
    Error::Unusable {
        store: address.to_string(),
        reason: variables.redact(reason),
    }
}
