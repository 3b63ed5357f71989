// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// The pages are complete without this script. It replaces the part of the page that changes when the
// dashboard says that something has changed, and now and then because times pass.
"use strict";

(() => {
  const passing = 10000; // How often times are shown anew, in milliseconds.
  const connection = document.getElementById("connection");
  const freeze = document.getElementById("freeze");
  let events = null;
  let loading = false;
  let again = false;
  let shown = new Date();

  const live = () => document.getElementById("live");
  const frozen = () => freeze.getAttribute("aria-pressed") === "true";

  // Says in a few words whether the page follows, and only when that changes: it is read aloud.
  function say(text, lost) {
    if (connection.textContent !== text) {
      connection.textContent = text;
    }
    connection.classList.toggle("lost", lost);
  }

  // Who has marked a text wants to copy it.
  function marking() {
    const selection = document.getSelection();
    return selection !== null && !selection.isCollapsed && live().contains(selection.anchorNode);
  }

  // Finds in the new page what has the focus in the old one.
  function focused(old) {
    const element = document.activeElement;
    if (element === null || !old.contains(element)) {
      return null;
    }
    const selector = element.hasAttribute("href") ? "a" : ".scroll";
    const same = [...old.querySelectorAll(selector)].filter((other) => other.getAttribute("href") === element.getAttribute("href"));
    return { selector, href: element.getAttribute("href"), number: same.indexOf(element) };
  }

  function replace(page) {
    const old = live();
    const fresh = page.getElementById("live");
    if (fresh === null) {
      return;
    }
    for (const id of ["title", "time"]) {
      document.getElementById(id).replaceWith(document.adoptNode(page.getElementById(id)));
    }
    document.title = page.title;
    const focus = focused(old);
    const scrolled = [...old.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
    const adopted = document.adoptNode(fresh);
    old.replaceWith(adopted);
    adopted.querySelectorAll(".scroll").forEach((box, i) => { box.scrollLeft = scrolled[i] || 0; });
    if (focus !== null) {
      const same = [...adopted.querySelectorAll(focus.selector)].filter((other) => other.getAttribute("href") === focus.href);
      (same[focus.number] || same[0] || document.getElementById("content")).focus({ preventScroll: true });
    }
  }

  // The browser parses the answer as a document in which no script runs.
  function reload() {
    if (frozen() || document.hidden || marking()) {
      return;
    }
    if (loading) {
      again = true;
      return;
    }
    loading = true;
    const request = new XMLHttpRequest();
    request.open("GET", location.href);
    request.responseType = "document";
    request.timeout = 20000;
    request.onloadend = () => {
      loading = false;
      if (request.response !== null) {
        replace(request.response);
        shown = new Date();
      }
      if (again) {
        again = false;
        reload();
      }
    };
    request.send();
  }

  function follow() {
    if (events !== null || document.hidden) {
      return;
    }
    events = new EventSource("events");
    events.addEventListener("changed", (event) => {
      say("Live", false);
      if (event.data !== live().dataset.version) {
        reload();
      }
    });
    events.onerror = () => {
      say(`Connection lost. This is the state of ${shown.toLocaleTimeString()}. Is the dashboard still running?`, true);
      if (events.readyState === EventSource.CLOSED) { // The browser does not try again by itself.
        unfollow();
        setTimeout(follow, 5000);
      }
    };
  }

  function unfollow() {
    if (events !== null) {
      events.close();
      events = null;
    }
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      unfollow(); // A browser opens few connections to one host.
    } else {
      follow();
      reload();
    }
  });
  freeze.addEventListener("click", () => {
    const now = !frozen();
    freeze.setAttribute("aria-pressed", String(now));
    reload();
  });
  freeze.hidden = false;
  setInterval(reload, passing);
  follow();
})();
