//! The commands that explain a failure.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{bail, Context};
use sim::files;
use sim::plan::Plan;
use sim::report::failure;
use sim::runner::{self, Watch};
use sim::show::{beside, page};
use sim::sweep::child_of_plan;
use sim::{shrink as shrinking, why as reasons};

/// What a plan holds, in few words.
fn size(plan: &Plan) -> String {
    let (faults, machines) =
        (plan.faults.len() + plan.lasting.len(), plan.nameservers + plan.brokers * (1 + plan.slaves));
    let (sends, clients) = (plan.operations(), plan.clients.len());
    format!("{faults} faults, {sends} sends, {clients} clients, {machines} servers, {} settings", plan.settings.len())
}

/// `sim shrink`
pub fn shrink(plan: &Plan, out: Option<PathBuf>, effort: shrinking::Effort) -> anyhow::Result<ExitCode> {
    eprintln!("{:>5} runs: {}", 0, size(plan));
    let shrunk = shrinking::shrink(plan, &effort, &|best, runs| eprintln!("{runs:>5} runs: {}", size(best)));
    let Some(shrunk) = shrunk else { bail!("this plan does not fail") };
    let mut small = shrunk.plan;
    // With a planted bug it must go on failing, without one it is kept until the bug is fixed, and then must pass.
    small.violates = (!small.canaries.is_empty()).then(|| shrunk.run.checker().unwrap_or_default().to_owned());
    let path = match out {
        Some(path) => path,
        None => files::plans().join(format!("{}-{}.json", small.scenario, small.seed)),
    };
    files::write(&path, &small.text())?;
    print!("{}", failure(&small, &shrunk.run.report, &path.display().to_string()));
    let cpu = shrunk.cpu_ms as f64 / 1e3;
    println!("{} -> {} in {} runs, {cpu:.1} s of CPU", size(plan), size(&small), shrunk.runs);
    Ok(ExitCode::SUCCESS)
}

/// `sim show`
pub fn show(plan: &Plan, which: &str, out: Option<PathBuf>, compare: bool) -> anyhow::Result<ExitCode> {
    let outcome = runner::run(plan, Watch::default());
    let path = out.unwrap_or_else(|| files::pages().join(format!("{}-{}.html", plan.scenario, plan.seed)));
    let mut page = page(plan, &outcome, which);
    if compare {
        if outcome.violation.is_none() {
            bail!("this plan passes; compare one that fails");
        }
        let passes = page_of_passing(plan, &path)?;
        page = beside(&page, &passes);
    }
    files::write(&path, &page)?;
    println!("{} events, {} KiB: {}", outcome.events, page.len() >> 10, path.display());
    Ok(ExitCode::SUCCESS)
}

/// Orders of tasks in which the plan is tried until it passes.
const SIBLINGS: u64 = 30;

/// The page of a run of the same plan that passes: without the planted bug if there is one, or else with another order of
/// tasks. It is made in a process of its own.
fn page_of_passing(plan: &Plan, path: &Path) -> anyhow::Result<String> {
    let binary = std::env::current_exe()?;
    let mut sibling = plan.clone();
    sibling.canaries.clear();
    let mut siblings = (0..SIBLINGS).map(|number| {
        let mut sibling = sibling.clone();
        sibling.schedule = sibling.schedule.wrapping_add(number);
        sibling
    });
    let sibling = siblings.find(|sibling| child_of_plan(&binary, sibling, None).passed);
    let sibling = sibling.with_context(|| format!("in {SIBLINGS} orders of tasks this plan never passes"))?;
    let (plan_file, page_file) = (path.with_extension("passes.json"), path.with_extension("passes.html"));
    files::write(&plan_file, &sibling.text())?;
    let made = Command::new(binary).arg("show").arg(&plan_file).arg("--out").arg(&page_file).output()?;
    let page = files::read(&page_file).map(|page| page.replace(&plan_file.display().to_string(), "PLAN"));
    for file in [plan_file, page_file] {
        files::remove(&file);
    }
    page.with_context(|| String::from_utf8_lossy(&made.stderr).into_owned())
}

/// `sim why`
pub fn why(plan: &Plan, jobs: usize, branches: u64) -> anyhow::Result<ExitCode> {
    let outcome = runner::run(plan, Watch::default());
    let effort = reasons::Effort { binary: std::env::current_exe()?, jobs, branches };
    let violation = outcome.violation.clone().context("this plan does not fail")?;
    println!("{violation}");
    let answer = reasons::why(plan, &outcome, &effort, &|moment| {
        eprintln!("{:>14.6} {} of {branches} ways from here fail", moment.at.as_secs_f64(), moment.failed);
    });
    let answer = answer.context("nothing was recorded")?;
    println!("\nhow likely it was, seen from moments of the run:");
    for moment in &answer.curve {
        let bar = "#".repeat((moment.failed * 40 / branches.max(1)) as usize);
        println!("{:>14.6} {:>3} % {bar}", moment.at.as_secs_f64(), moment.failed * 100 / branches.max(1));
    }
    match (answer.open, answer.inevitable) {
        (_, None) => println!("\nto the end there were ways out"),
        (None, Some(_)) => println!("\nfrom the beginning no way led out: the faults have no part in it"),
        (Some(open), Some(from)) => {
            println!(
                "\nafter {:.6} s it could still end well, from {:.6} s on it could not:",
                open.as_secs_f64(),
                from.as_secs_f64()
            );
            for event in &answer.between {
                println!("{}", event.line(&outcome.recording.names));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
