//! The words of a message.
//!
//! Texts name datasets and files of any user. Control characters in them are spelled out, so that each problem stays on
//! its lines.

use std::fmt::Write;

use console::show::{text, time};
use protocol::api::{Fullness, PoolReport, ReplicationRow};
use serde::Serialize;

use crate::problem::{CurrentProblem, SurveyAnswer};
use crate::record::News;

/// The most problems of a kind that are spelled out.
const SHOWN_MAX: usize = 20;

/// The result of sending: why a target did not take the message.
pub(crate) type SendResult = Result<(), String>;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct NoticeToPeople {
    pub(crate) host: String,
    /// The subject, in one line of ASCII.
    pub(crate) title: String,
    pub(crate) text: String,
    pub(crate) is_critical: bool,
    pub(crate) problems: Vec<CurrentProblem>,
    pub(crate) solved: Vec<CurrentProblem>,
}

impl NoticeToPeople {
    /// A message that tells what is new. None if nothing is.
    pub(crate) fn of_news(host: &str, news: News) -> Option<NoticeToPeople> {
        let title = match (news.new.as_slice(), news.solved.as_slice()) {
            ([], []) => return None,
            ([], [one]) => format!("{} solved", subject(one)),
            ([], all) => format!("{} problems are solved", all.len()),
            ([first, others @ ..], _) => match others.iter().all(|one| one.pool == first.pool) {
                true => format!("{} needs attention", subject(first)),
                false => format!("{} new problems", news.new.len()),
            },
        };
        let is_critical = news.new.iter().any(|problem| problem.is_critical);
        let title = match is_critical {
            true => format!("CRITICAL: {title}"),
            false => title,
        };
        let mut body = String::new();
        list(&mut body, "Problems:", &news.new);
        list(&mut body, "Solved:", &news.solved);
        if news.open > 0 {
            let _ = writeln!(
                body,
                "\nStill open: {}. See 'strongroom pool status -x'.",
                news.open
            );
        }
        Some(NoticeToPeople {
            is_critical,
            problems: news.new,
            solved: news.solved,
            ..NoticeToPeople::new(host, &title, body)
        })
    }

    pub(crate) fn of_test(host: &str) -> NoticeToPeople {
        let text = "A test of 'strongroom notify test'. This target is told of problems.\n".into();
        NoticeToPeople::new(host, "a test, nothing is wrong", text)
    }

    /// The weekly report.
    pub(crate) fn of_week(
        host: &str,
        answer: &SurveyAnswer,
        problems: &[CurrentProblem],
    ) -> NoticeToPeople {
        let title = match problems.len() {
            0 => "all is well".to_owned(),
            1 => "1 problem is open".to_owned(),
            number => format!("{number} problems are open"),
        };
        let mut body = String::new();
        for pool in &answer.pools {
            let _ = writeln!(body, "{}", of_pool(pool));
        }
        for job in answer.jobs.iter().flatten() {
            let _ = writeln!(body, "{}", of_job(job));
        }
        if answer.pools.is_empty() {
            body += "No pool is imported.\n";
        }
        list(&mut body, "Problems:", problems);
        NoticeToPeople {
            problems: problems.to_vec(),
            ..NoticeToPeople::new(host, &title, body)
        }
    }

    fn new(host: &str, title: &str, body: String) -> NoticeToPeople {
        let title = format!("strongroom on {host}: {title}");
        let ascii = |c: char| match c.is_ascii_graphic() || c == ' ' {
            true => c,
            false => '?',
        };
        NoticeToPeople {
            host: host.into(),
            title: title.chars().map(ascii).collect(),
            text: body.trim_start_matches('\n').to_owned(),
            is_critical: false,
            problems: Vec::new(),
            solved: Vec::new(),
        }
    }
}

fn subject(problem: &CurrentProblem) -> String {
    problem
        .pool
        .clone()
        .unwrap_or_else(|| problem.subject.clone())
}

fn list(body: &mut String, head: &str, problems: &[CurrentProblem]) {
    if problems.is_empty() {
        return;
    }
    let _ = writeln!(body, "\n{head}");
    for problem in problems.iter().take(SHOWN_MAX) {
        let pool = problem
            .pool
            .as_deref()
            .map_or(String::new(), |pool| format!("{pool}: "));
        let critical = if problem.is_critical {
            "CRITICAL: "
        } else {
            ""
        };
        let line = format!("{critical}{pool}{}", problem.text);
        let _ = writeln!(body, "- {}", text::in_a_cell(&line));
        if let Some(action) = &problem.action {
            let _ = writeln!(body, "  {}", text::in_a_cell(action));
        }
    }
    if problems.len() > SHOWN_MAX {
        let _ = writeln!(body, "- and {} more", problems.len() - SHOWN_MAX);
    }
}

fn of_pool(pool: &PoolReport) -> String {
    let full = Fullness::of(pool.allocated, pool.free).percent;
    let scrub = match pool.scrub.ended {
        0 => "never scrubbed".to_owned(),
        ended => format!("scrubbed {}", time::minute(ended)),
    };
    let line = format!("{}: {}, {full} % full, {scrub}", pool.name, pool.health);
    text::in_a_cell(&line).into_owned()
}

fn of_job(job: &ReplicationRow) -> String {
    let newest = match job.newest {
        Some(newest) => format!("the copy is of {}", time::minute(newest)),
        None => "nothing was copied yet".to_owned(),
    };
    let (name, source, target, state) = (&job.name, &job.source, &job.target, &job.state);
    let line = format!("{name} of {source} to {target}: {state}, {newest}");
    text::in_a_cell(&line).into_owned()
}

/// The begin of a text, with at most so many bytes, and where the rest is.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    const REST: &str = "...\nThere is more: see 'strongroom pool status -x'.\n";
    match text.len() <= bytes_max {
        true => text.to_owned(),
        false => text[..text.floor_char_boundary(bytes_max - REST.len())].to_owned() + REST,
    }
}

/// The text in lines of at most so many bytes. Longer ones are broken at a blank, if there is one.
pub(crate) fn folded(text: &str, bytes_max: usize) -> String {
    let mut out = String::new();
    for mut line in text.lines() {
        while line.len() > bytes_max {
            let most = line.floor_char_boundary(bytes_max);
            let at = line[..most].rfind(' ').filter(|at| *at > 0).unwrap_or(most);
            out += &line[..at];
            out += "\n";
            line = line[at..].trim_start_matches(' ');
        }
        out += line;
        out += "\n";
    }
    out
}
