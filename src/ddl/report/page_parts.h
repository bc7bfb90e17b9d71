#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ddl/report/comparison.h"
#include "ddl/report/plots.h"

namespace ddl {

/// What the parts of the page are made from.
struct PageContent {
  std::vector<RunView> views;
  std::vector<RunGroup> groups;   ///< of the views
  std::vector<Json> explanations;  ///< ddlbench.explain/1, of some of them
  std::string explanations_note;   ///< why not of all
};

/// Plots that a part put on the page: the id of their place, and what to draw there.
using Specifications = std::vector<std::pair<std::string, Json>>;

/// A section's id and title for the navigation, and its HTML; left out where that is empty.
using PagePart = std::pair<std::pair<std::string, std::string>, std::string>;
/// A whole page around them, with everything that it needs inside.
std::string page_html(const std::string& header, const std::vector<PagePart>& parts, const Specifications& plots);

// Each gives the HTML of one part of the page; empty where there is nothing to show.

/// The finding as the title; in plain words what was run, where and when.
std::string header_html(const PageContent& content);
std::string results_html(const PageContent& content);
std::string scaling_html(const PageContent& content, Specifications& plots);
std::string time_html(const PageContent& content, Specifications& plots);
std::string prediction_html(const PageContent& content, Specifications& plots);
/// What speed-ups are lost to, where explain was asked.
std::string why_html(const PageContent& content, Specifications& plots);
std::string timeline_html(const PageContent& content, Specifications& plots);
std::string staleness_html(const PageContent& content);
std::string learning_html(const PageContent& content, Specifications& plots);
std::string steps_html(const PageContent& content, Specifications& plots);
std::string environment_html(const PageContent& content);
std::string configuration_html(const PageContent& content);
std::string downloads_html(const PageContent& content);

/// <figure> with caption, legend and a place for the plot.
std::string figure_html(const Plot& plot, const std::string& id, Specifications& plots);
std::string section_html(const std::string& id, const std::string& title, const std::string& lead,
                         const std::string& body);

}  // namespace ddl
