//! Figures for Prometheus: each is on the page, and the page has no other.

use std::collections::BTreeSet;
use std::fs;

use mapwright_testbed::{eventually, secs};

use crate::broken::root;
use crate::dcm::{CONTAINERS, Dcm, web};

/// Name, kind and labels of each row of the page.
fn rows() -> BTreeSet<(String, String, String)> {
    let page = fs::read_to_string(root().join("docs/rest.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `mapwright_"));
    rows.map(|line| {
        let cells: Vec<String> = line.split('|').map(|cell| cell.trim().replace('`', "")).collect();
        (cells[1].clone(), cells[2].clone(), cells[3].clone())
    })
    .collect()
}

/// Name, kind and labels of each family of an answer.
fn families(text: &str) -> BTreeSet<(String, String, String)> {
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    kinds
        .map(|(name, kind)| {
            // Of a histogram, the sum has the labels of the page: a bucket has its bound besides.
            let first = if kind == "histogram" { format!("{name}_sum") } else { name.to_owned() };
            let of = |line: &&str| line.split(['{', ' ']).next() == Some(&first);
            let figure = text.lines().find(of).unwrap_or_else(|| panic!("no figure of {name}"));
            let labels = figure.split_once('{').map_or("", |(_, rest)| rest.split('}').next().unwrap());
            let names: Vec<&str> =
                labels.split("\",").filter_map(|label| Some(label.split_once('=')?.0)).collect();
            (name.to_owned(), kind.to_owned(), names.join(", "))
        })
        .collect()
}

#[tokio::test]
async fn the_figures_are_those_of_the_page() {
    let dcm = Dcm::start("figures-page").await;
    dcm.container("one", web()).await;
    dcm.says(CONTAINERS, "one", "PENDING", &[]).await;
    let answer = dcm.get("/metrics").await;
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(families(&answer.text()), rows());
    for line in answer.text().lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok_and(|value| value >= 0.0), "{line}");
    }
    let leads = async || {
        let text = dcm.get("/metrics").await.text();
        text.contains("mapwright_leads{service_type=\"container\"} 1\n").then_some(())
    };
    eventually("the only process leads", secs(60), leads).await.unwrap();
}
