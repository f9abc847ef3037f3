//! Credentials in the files of the AWS command line: `~/.aws/credentials` and `~/.aws/config`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use parking_lot::Mutex;

use crate::store::cloud::variables::Variables;

/// A file of the AWS command line is no longer than this.
const FILE_MAX: u64 = 1 << 20;

/// A profile with a key.
#[derive(Clone, Debug)]
pub(super) struct SharedProfile {
    /// The region, if a file names one.
    pub(super) region: Option<String>,
    /// The address of the store, if a file names one.
    pub(super) endpoint: Option<String>,
    /// The credentials, if the files have any.
    pub(super) credentials: Option<Arc<ProfileCredentials>>,
}

impl SharedProfile {
    /// Reads the profile that the environment names, or the one called `default`.
    ///
    /// # Errors
    /// A sentence, if the environment names a profile that has no key.
    pub(super) fn read(variables: &Variables) -> Result<SharedProfile, String> {
        let name = variables
            .get("AWS_PROFILE")
            .or(variables.get("AWS_DEFAULT_PROFILE"));
        let files = ProfileFiles::new(variables);
        let section = files.section(name.unwrap_or("default"))?;
        let has_key = section.get("aws_access_key_id").is_some();
        if let Some(name) = name.filter(|_| !has_key) {
            return Err(no_key(name, &files, &section));
        }
        let credentials = ProfileCredentials {
            profile: name.unwrap_or("default").to_owned(),
            files,
            last: Mutex::default(),
        };
        Ok(SharedProfile {
            region: section.get("region").map(str::to_owned),
            endpoint: section.get("endpoint_url").map(str::to_owned),
            credentials: has_key.then(|| Arc::new(credentials)),
        })
    }
}

fn no_key(name: &str, files: &ProfileFiles, section: &ProfileSection) -> String {
    let names = [
        "credential_process",
        "sso_session",
        "sso_start_url",
        "role_arn",
        "source_profile",
    ];
    match names.iter().find(|name| section.get(name).is_some()) {
        Some(setting) => format!(
            "the profile {name} has {setting}, which is not supported; `aws configure export-credentials --profile {name} --format env` prints credentials for the environment"
        ),
        None => format!(
            "the profile {name} of AWS_PROFILE has no aws_access_key_id in {}",
            files.credentials.display()
        ),
    }
}

/// Credentials that are read again when their file changes.
pub(super) struct ProfileCredentials {
    profile: String,
    files: ProfileFiles,
    last: Mutex<Option<(Option<SystemTime>, Arc<AwsCredential>)>>,
}

impl std::fmt::Debug for ProfileCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ProfileCredentials({})", self.profile)
    }
}

#[async_trait::async_trait]
impl CredentialProvider for ProfileCredentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut last = self.last.lock();
        let changed = self.files.changed();
        if let Some((time, credential)) = &*last
            && *time == changed
        {
            return Ok(Arc::clone(credential));
        }
        let credential = self
            .read()
            .map_err(|reason| object_store::Error::Unauthenticated {
                path: self.files.credentials.display().to_string(),
                source: reason.into(),
            })?;
        *last = Some((changed, Arc::clone(&credential)));
        Ok(credential)
    }
}

impl ProfileCredentials {
    fn read(&self) -> Result<Arc<AwsCredential>, String> {
        let section = self.files.section(&self.profile)?;
        let value = |name: &str| section.get(name).map(str::to_owned);
        match (value("aws_access_key_id"), value("aws_secret_access_key")) {
            (Some(key_id), Some(secret_key)) => Ok(Arc::new(AwsCredential {
                key_id,
                secret_key,
                token: value("aws_session_token"),
            })),
            _ => Err(format!(
                "the profile {} has no aws_access_key_id and aws_secret_access_key",
                self.profile
            )),
        }
    }
}

/// The files of the AWS command line.
#[derive(Clone)]
struct ProfileFiles {
    credentials: PathBuf,
    config: PathBuf,
}

impl ProfileFiles {
    fn new(variables: &Variables) -> ProfileFiles {
        let home = PathBuf::from(variables.get("HOME").unwrap_or("/root"));
        let file = |variable: &str, default: &str| match variables.get(variable) {
            Some(path) => PathBuf::from(path),
            None => home.join(default),
        };
        ProfileFiles {
            credentials: file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"),
            config: file("AWS_CONFIG_FILE", ".aws/config"),
        }
    }

    /// The settings of a profile in both files. Those of the file of credentials count first.
    fn section(&self, profile: &str) -> Result<ProfileSection, String> {
        let mut section = ProfileSection::default();
        section.add(&text(&self.credentials)?, profile);
        let config = text(&self.config)?;
        section.add(&config, &format!("profile {profile}"));
        if profile == "default" {
            section.add(&config, profile);
        }
        Ok(section)
    }

    fn changed(&self) -> Option<SystemTime> {
        let times =
            [&self.credentials, &self.config].map(|path| std::fs::metadata(path)?.modified());
        times.into_iter().filter_map(std::io::Result::ok).max()
    }
}

/// The text of a file, empty if there is none.
fn text(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("{}: {error}", path.display());
    let about = match std::fs::metadata(path) {
        Ok(about) => about,
        Err(_) => return Ok(String::new()),
    };
    if !about.is_file() || about.len() > FILE_MAX {
        return Err(format!(
            "{} is no file of at most {FILE_MAX} bytes",
            path.display()
        ));
    }
    std::fs::read_to_string(path).map_err(unreadable)
}

/// The settings of a profile.
#[derive(Default)]
struct ProfileSection {
    settings: Vec<(String, String)>,
}

impl ProfileSection {
    fn get(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().find(|(setting, _)| setting == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Adds the settings of a section `[name]`. Lines that begin with a space belong to a nested setting.
    fn add(&mut self, text: &str, name: &str) {
        let mut is_inside = false;
        for line in text.lines() {
            if let Some(heading) = line.trim_end().strip_prefix('[') {
                let heading = heading.trim_end_matches(']').split_whitespace();
                is_inside = heading.eq(name.split_whitespace());
            } else if is_inside
                && !line.starts_with(char::is_whitespace)
                && let Some((setting, value)) = line.split_once('=')
            {
                let setting = setting.trim().to_ascii_lowercase();
                self.settings.push((setting, value.trim().to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(folder: &Path, more: &[(&str, &str)]) -> Variables {
        let home = [("HOME", folder.to_str().unwrap())];
        let pairs = home.iter().chain(more);
        pairs
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }

    fn folder(credentials: &str, config: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".aws")).unwrap();
        std::fs::write(folder.path().join(".aws/credentials"), credentials).unwrap();
        std::fs::write(folder.path().join(".aws/config"), config).unwrap();
        folder
    }

    const CREDENTIALS: &str = "# comment\n[default]\naws_access_key_id = A\naws_secret_access_key=s=/+\n\n[work]\r\naws_access_key_id=B\r\naws_secret_access_key=t\r\naws_session_token=u\r\n";
    const CONFIG: &str = "[default]\nregion=eu-west-1\ns3 =\n  endpoint_url = nested\n[profile work]\nendpoint_url=http://store\n[profile sso]\nsso_session=x\n";

    async fn key(profile: &SharedProfile) -> (String, String, Option<String>) {
        let credentials = profile.credentials.as_ref().unwrap().get_credential();
        let key = credentials.await.unwrap();
        (
            key.key_id.clone(),
            key.secret_key.clone(),
            key.token.clone(),
        )
    }

    #[tokio::test]
    async fn profiles_are_read() {
        let folder = folder(CREDENTIALS, CONFIG);
        let profile = SharedProfile::read(&variables(folder.path(), &[])).unwrap();
        assert_eq!(profile.region.as_deref(), Some("eu-west-1"));
        assert_eq!(profile.endpoint, None);
        assert_eq!(key(&profile).await, ("A".into(), "s=/+".into(), None));

        let work = variables(folder.path(), &[("AWS_PROFILE", "work")]);
        let profile = SharedProfile::read(&work).unwrap();
        assert_eq!(profile.endpoint.as_deref(), Some("http://store"));
        assert_eq!(
            key(&profile).await,
            ("B".into(), "t".into(), Some("u".into()))
        );

        for (name, reason) in [("sso", "sso_session"), ("nobody", "no aws_access_key_id")] {
            let error = SharedProfile::read(&variables(folder.path(), &[("AWS_PROFILE", name)]));
            assert!(error.as_ref().unwrap_err().contains(reason), "{error:?}");
        }
    }

    #[tokio::test]
    async fn new_credentials_are_read_without_a_restart() {
        let folder = folder(CREDENTIALS, CONFIG);
        let profile = SharedProfile::read(&variables(folder.path(), &[])).unwrap();
        assert_eq!(key(&profile).await.0, "A");
        let path = folder.path().join(".aws/credentials");
        std::fs::write(&path, CREDENTIALS.replace("= A", "= C")).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() + std::time::Duration::from_secs(5))
            .unwrap();
        assert_eq!(key(&profile).await.0, "C");
    }

    #[test]
    fn a_machine_without_files_has_no_profile() {
        let folder = tempfile::tempdir().unwrap();
        let profile = SharedProfile::read(&variables(folder.path(), &[])).unwrap();
        assert!(profile.credentials.is_none());
    }
}
