//! The login of a connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{TransferClaim, TransferShare};

use crate::error::DisconnectCause;
use crate::login::chap::{Chap, ChapFailure, Exchange};
use crate::targets::portal::Targets;
use crate::targets::target::{AttachRefusal, IscsiTarget, TargetSession, Who};
use crate::wire::keys::{self, SessionParameters, TEXT_MAX};
use crate::wire::link::{InitiatorLink, PduBuffer};
use crate::wire::pdu::{
    self, Digests, PduHeader, ReceivedPdu, SEGMENT_MAX, answered, append, common, request,
    response, sent,
};

const TRANSIT: u8 = 0x80;
const CONTINUE: u8 = 0x40;

/// A login PDU has at most so many bytes of text.
const LOGIN_SEGMENT: usize = 8192;
/// A login has at most so many requests.
const REQUESTS_MAX: u32 = 64;

/// A login says at most so many keys.
const KEYS_MAX: usize = 256;
/// Keys that declare who the initiator is and what it wants.
const NAMES: [&str; 4] = [
    "InitiatorName",
    "InitiatorAlias",
    "TargetName",
    "SessionType",
];
/// The memory of a session: input, the data of one PDU, a few answers, and blocks that it compares or fills.
const SESSION_MEMORY: usize = 256 << 10;

/// The stages of a login.
const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL_FEATURE: u8 = 3;

/// The refusal of a login: class and detail of its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LoginStatus(u8, u8);

const MOVED_FOR_NOW: LoginStatus = LoginStatus(1, 1);
const MOVED_FOR_GOOD: LoginStatus = LoginStatus(1, 2);
const INITIATOR_ERROR: LoginStatus = LoginStatus(2, 0);
const AUTHENTICATION: LoginStatus = LoginStatus(2, 1);
const FORBIDDEN: LoginStatus = LoginStatus(2, 2);
const NOT_FOUND: LoginStatus = LoginStatus(2, 3);
const TOO_MANY_CONNECTIONS: LoginStatus = LoginStatus(2, 6);
const MISSING_PARAMETER: LoginStatus = LoginStatus(2, 7);
const NO_SUCH_TYPE: LoginStatus = LoginStatus(2, 9);
const NO_SUCH_SESSION: LoginStatus = LoginStatus(2, 10);
const OUT_OF_RESOURCES: LoginStatus = LoginStatus(3, 2);

pub(crate) enum SessionPurpose {
    /// Only to find out what there is: what needs no proof, and what these proofs are for.
    Discovery(Vec<Arc<dyn Chap>>),
    Use(TargetSession),
}

/// A session that has logged in.
pub(crate) struct NewSession {
    pub(crate) purpose: SessionPurpose,
    pub(crate) initiator: String,
    pub(crate) agreed: SessionParameters,
    /// The connection's number.
    pub(crate) cid: [u8; 2],
    /// The numbers of the next status and of the next command.
    pub(crate) numbers: (u32, u32),
    /// The memory for data of the session, with the part that it has in any case.
    pub(crate) memory: TransferShare,
    pub(crate) reserved: Option<TransferClaim>,
}

/// The state of a login.
struct LoginNegotiation<'a> {
    link: &'a Arc<dyn InitiatorLink>,
    targets: &'a Targets,
    /// Returns whether another session may use a target.
    has_place: &'a dyn Fn() -> bool,
    agreed: SessionParameters,
    memory: &'a TransferShare,
    /// The memory that the session has in any case.
    reserved: Option<TransferClaim>,
    /// Keys that were said, with their values.
    said: BTreeMap<String, String>,
    initiator: Option<String>,
    is_discovery: bool,
    target: Option<Arc<IscsiTarget>>,
    /// The number of the session that the connection wants to join; 0 for a new one.
    session: u16,
    /// For the log: why no target was found.
    absence: Option<&'static str>,
    /// The portal to which the initiator is sent.
    elsewhere: Option<String>,
    stage: Option<u8>,
    /// The exchange that proves the identity of the initiator, where that matters.
    exchange: Option<Exchange>,
    /// True once the parameters were declared.
    has_declared: bool,
    isid: [u8; 6],
}

/// Logs a connection in. `None` if the initiator has gone, or was refused. `may_tell` says whether the log may have a line
/// about that.
pub(crate) fn login(
    link: &Arc<dyn InitiatorLink>,
    input: &mut PduBuffer,
    targets: &Targets,
    memory: &TransferShare,
    has_place: &dyn Fn() -> bool,
    may_tell: &dyn Fn() -> bool,
) -> Result<Option<NewSession>, DisconnectCause> {
    let mut login = LoginNegotiation {
        link,
        targets,
        has_place,
        memory,
        reserved: None,
        agreed: SessionParameters::new(),
        said: BTreeMap::new(),
        initiator: None,
        is_discovery: false,
        target: None,
        session: 0,
        absence: None,
        elsewhere: None,
        stage: None,
        exchange: None,
        has_declared: false,
        isid: [0; 6],
    };
    let mut received = ReceivedPdu::new();
    let mut text = Vec::new();
    let (mut status, mut requests) = (0, 0);
    while received.next(&**link, input, Digests::default(), LOGIN_SEGMENT)? {
        let head = received.head.clone();
        if head.opcode() != request::LOGIN || received.has_more {
            return Err(DisconnectCause::Protocol("it did not log in"));
        }
        requests += 1;
        if requests > REQUESTS_MAX {
            return Err(DisconnectCause::Protocol("its login does not end"));
        }
        if login.stage.is_none() {
            status = head.get(sent::EXPECTED_STATUS);
            login.isid = head.get(pdu::login::ISID);
        }
        text.extend_from_slice(received.data());
        if text.len() > TEXT_MAX {
            return Err(DisconnectCause::Protocol("its login is too long"));
        }
        let mut reply = reply_to(&head, status);
        status = status.wrapping_add(1);
        let mut out = Vec::new();
        if head.flags() & CONTINUE != 0 {
            append(&mut out, &mut reply, &[]);
            link.send(&out)?;
            continue;
        }
        let mut answer = Vec::new();
        let done = login.step(&head, &text, &mut answer);
        text.clear();
        match done {
            Ok(next) => {
                let next = next.map_or(0, |next| TRANSIT | next);
                reply.set(common::FLAGS, head.flags() & 0x0c | next);
            }
            Err(LoginStatus(class, detail)) => {
                reply.set(pdu::login::STATUS, [class, detail]);
                match &login.elsewhere {
                    // With the proof of the target, if the initiator asked for one.
                    Some(to) => keys::put(&mut answer, "TargetAddress", to),
                    None => answer.clear(),
                }
            }
        }
        let attached = match done {
            Ok(Some(FULL_FEATURE)) => login.finish(),
            _ => Ok(None),
        };
        match &attached {
            Ok(Some(SessionPurpose::Use(attached))) => {
                reply.set(pdu::login::SESSION, attached.number)
            }
            Ok(Some(SessionPurpose::Discovery(_))) => reply.set(pdu::login::SESSION, 1),
            Ok(None) => {}
            Err(LoginStatus(class, detail)) => {
                reply.set(pdu::login::STATUS, [*class, *detail]);
                reply.set(common::FLAGS, 0);
                answer.clear();
            }
        }
        append(&mut out, &mut reply, &answer);
        link.send(&out)?;
        if done.is_err() || attached.is_err() {
            let LoginStatus(class, detail) =
                done.err().or(attached.err()).unwrap_or(INITIATOR_ERROR);
            let (initiator, from) = (login.initiator.unwrap_or_default(), link.peer());
            match login.elsewhere {
                _ if !may_tell() => {}
                Some(to) => tracing::info!(initiator, from, to, "a login was redirected"),
                None => {
                    let absence = login.absence;
                    tracing::warn!(
                        initiator,
                        from,
                        class,
                        detail,
                        absence,
                        "a login was refused"
                    );
                }
            }
            return Ok(None);
        }
        if let Ok(Some(purpose)) = attached {
            return Ok(Some(NewSession {
                purpose,
                initiator: login.initiator.unwrap_or_default(),
                agreed: login.agreed,
                cid: head.get(pdu::login::CONNECTION),
                numbers: (status, head.get(sent::COMMAND_NUMBER)),
                memory: memory.clone(),
                reserved: login.reserved,
            }));
        }
    }
    Ok(None)
}

/// The head of an answer. The window has room for one command.
fn reply_to(head: &PduHeader, status: u32) -> PduHeader {
    let mut reply = head.response(response::LOGIN, head.flags() & 0x0c);
    let command = head.get(sent::COMMAND_NUMBER);
    reply.set(answered::STATUS_NUMBER, status);
    reply.set(answered::EXPECTED_COMMAND, command);
    reply.set(answered::MAX_COMMAND, command);
    reply
}

impl LoginNegotiation<'_> {
    /// Takes one request. Returns the stage that comes next, if it changes.
    fn step(
        &mut self,
        head: &PduHeader,
        text: &[u8],
        answer: &mut Vec<u8>,
    ) -> Result<Option<u8>, LoginStatus> {
        if head.get(pdu::login::MIN_VERSION) > 0 {
            // There is no other version than 0.
            return Err(LoginStatus(2, 5));
        }
        let (now, next) = (head.flags() >> 2 & 3, head.flags() & 3);
        let pairs = keys::pairs(text).ok_or(INITIATOR_ERROR)?;
        match self.stage {
            None => self.begin(head, &pairs)?,
            Some(stage) if stage != now => return Err(INITIATOR_ERROR),
            Some(_) => {}
        }
        let is_first = self.stage.is_none();
        self.stage = Some(now);
        if is_first && !self.is_discovery {
            keys::put(answer, "TargetPortalGroupTag", "1");
        }
        let wants_end = head.flags() & TRANSIT != 0;
        let mut proof = Vec::new();
        for (key, value) in pairs {
            if self.repeats(key, value)? {
                continue;
            }
            match self.exchange.is_some() && now == SECURITY && Exchange::is_own(key) {
                true => proof.push((key, value)),
                false => self.key(now, key, value, answer)?,
            }
        }
        if let Some(exchange) = &mut self.exchange {
            if now == SECURITY {
                let done = exchange.step(&proof, wants_end, answer);
                done.map_err(|ChapFailure| AUTHENTICATION)?;
                let has_proved = exchange.user().is_some();
                if has_proved && let Some(target) = self.target.clone() {
                    self.redirect(&target)?;
                }
            } else if !exchange.may_end() {
                // It left the security stage out.
                return Err(AUTHENTICATION);
            }
        }
        if now == OPERATIONAL && !self.has_declared {
            self.has_declared = true;
            keys::put(answer, "MaxRecvDataSegmentLength", &SEGMENT_MAX.to_string());
        }
        if !wants_end || self.exchange.as_ref().is_some_and(|it| !it.may_end()) {
            return Ok(None);
        }
        match (now, next) {
            (SECURITY, OPERATIONAL | FULL_FEATURE) | (OPERATIONAL, FULL_FEATURE) => {
                self.stage = Some(next);
                Ok(Some(next))
            }
            _ => Err(INITIATOR_ERROR),
        }
    }

    /// Notes a key. True for a name that is declared again with the same value: initiators that offer CHAP declare their
    /// names in both stages. RFC 7143, section 6.3, forbids any other key to come twice.
    fn repeats(&mut self, key: &str, value: &str) -> Result<bool, LoginStatus> {
        match self.said.get(key) {
            Some(before) if NAMES.contains(&key) && before == value => Ok(true),
            None if self.said.len() < KEYS_MAX => {
                self.said.insert(key.into(), value.into());
                Ok(false)
            }
            Some(_) | None => Err(INITIATOR_ERROR),
        }
    }

    /// Reads the first request: the initiator, and the target it wants.
    fn begin(&mut self, head: &PduHeader, pairs: &[(&str, &str)]) -> Result<(), LoginStatus> {
        let value = |key| pairs.iter().find(|pair| pair.0 == key).map(|pair| pair.1);
        let stage = head.flags() >> 2 & 3;
        if stage != SECURITY && stage != OPERATIONAL {
            return Err(INITIATOR_ERROR);
        }
        let initiator = value("InitiatorName").ok_or(MISSING_PARAMETER)?;
        if initiator.is_empty() || initiator.len() > 223 || initiator.chars().any(char::is_control)
        {
            return Err(INITIATOR_ERROR);
        }
        // Names differ by more than the size of their letters.
        self.initiator = Some(initiator.to_ascii_lowercase());
        self.is_discovery = match value("SessionType") {
            None | Some("Normal") => false,
            Some("Discovery") => true,
            Some(_) => return Err(NO_SUCH_TYPE),
        };
        let session = head.get(pdu::login::SESSION);
        if !self.is_discovery {
            let name = value("TargetName").ok_or(MISSING_PARAMETER)?;
            self.session = session;
            self.choose(&name.to_ascii_lowercase(), initiator)?;
        } else if session != 0 {
            return Err(NO_SUCH_SESSION);
        } else {
            // Those of all targets: the answer does not depend on the name that the initiator gives itself.
            let all = self.targets.all();
            let chaps: Vec<_> = all.iter().filter_map(|it| it.chap()).collect();
            self.exchange = (!chaps.is_empty()).then(|| Exchange::new(chaps, false));
        }
        Ok(())
    }

    /// Finds the target that the initiator names. One that the initiator may not see is like one that does not exist:
    /// where a target asks for a secret, both ask for one that nobody knows.
    fn choose(&mut self, name: &str, initiator: &str) -> Result<(), LoginStatus> {
        let found = self.targets.find(name);
        let seen = { found.as_ref() }.filter(|target| target.admits(initiator));
        let Some(target) = seen.cloned() else {
            self.absence = Some(match found {
                Some(_) => "the target does not admit the initiator",
                None => "there is no such target",
            });
            let decoy = self.targets.decoy().ok_or(NOT_FOUND)?;
            self.exchange = Some(Exchange::new(vec![decoy], true));
            return Ok(());
        };
        match target.chap() {
            Some(chap) => self.exchange = Some(Exchange::new(vec![chap], true)),
            None => self.redirect(&target)?,
        }
        self.target = Some(target);
        Ok(())
    }

    /// Sends the initiator to another portal, if this one redirects logins.
    fn redirect(&mut self, target: &IscsiTarget) -> Result<(), LoginStatus> {
        let elsewhere = self.targets.elsewhere(target.name(), &self.link.portal());
        let Some((to, permanently)) = elsewhere else {
            return Ok(());
        };
        self.elsewhere = Some(to);
        Err(match permanently {
            true => MOVED_FOR_GOOD,
            false => MOVED_FOR_NOW,
        })
    }

    fn key(
        &mut self,
        stage: u8,
        key: &str,
        value: &str,
        answer: &mut Vec<u8>,
    ) -> Result<(), LoginStatus> {
        match key {
            name if NAMES.contains(&name) => Ok(()),
            "AuthMethod" if stage == SECURITY => {
                if !value.split(',').any(|method| method == "None") {
                    return Err(AUTHENTICATION);
                }
                keys::put(answer, "AuthMethod", "None");
                Ok(())
            }
            _ if stage == SECURITY => {
                keys::put(answer, key, "NotUnderstood");
                Ok(())
            }
            _ => {
                let reply = self.agreed.negotiate(key, value);
                if let Some(reply) = reply.map_err(|()| INITIATOR_ERROR)? {
                    keys::put(answer, key, &reply);
                }
                Ok(())
            }
        }
    }

    /// The session, now that all is agreed on.
    fn finish(&mut self) -> Result<Option<SessionPurpose>, LoginStatus> {
        if self.agreed.first_burst > self.agreed.burst {
            self.agreed.first_burst = self.agreed.burst;
        }
        // One that only asks what there is takes no place from those that use a target.
        if self.is_discovery {
            let proved = self.exchange.take().map(Exchange::proved);
            return Ok(Some(SessionPurpose::Discovery(proved.unwrap_or_default())));
        }
        let target = self.target.as_ref().ok_or(AUTHENTICATION)?;
        let has = |session| target.sessions().iter().any(|it| it.number == session);
        match self.session {
            0 => {}
            known if has(known) => return Err(TOO_MANY_CONNECTIONS),
            _ => return Err(NO_SUCH_SESSION),
        }
        let reserved = self.memory.claim(SESSION_MEMORY);
        self.reserved = Some(reserved.ok_or(OUT_OF_RESOURCES)?);
        if !(self.has_place)() {
            return Err(OUT_OF_RESOURCES);
        }
        let who = Who {
            initiator: self.initiator.clone().unwrap_or_default(),
            isid: self.isid,
            user: self
                .exchange
                .as_ref()
                .and_then(Exchange::user)
                .map(Into::into),
        };
        match target.attach(self.link, who) {
            Ok(attached) => Ok(Some(SessionPurpose::Use(attached))),
            Err(AttachRefusal::Hidden) => Err(NOT_FOUND),
            Err(AttachRefusal::OfAnother) => Err(FORBIDDEN),
            Err(AttachRefusal::Full) => Err(OUT_OF_RESOURCES),
        }
    }
}
