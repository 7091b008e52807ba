"use strict";
// Every few seconds the page is asked for again, and the parts that have changed are replaced. The reader's place on
// the page, what is focused and how far tables are scrolled stay as they are. Without scripts the browser reloads it.
(() => {
  const notice = document.getElementById("out-of-date");
  const parts = ["head", "own", "map", "times", "trainings", "nodes", "decisions", "delays"];
  const regions = (part) => part.querySelectorAll("[tabindex], a");
  let lastAnswer = new Date();

  const replace = (id, page) => {
    const old = document.getElementById(id);
    const fresh = page.getElementById(id);
    if (!old || !fresh || old.outerHTML === fresh.outerHTML) return;
    const before = [...regions(old)];
    const scrolled = before.map((each) => each.scrollLeft);
    const focused = before.indexOf(document.activeElement);
    old.replaceWith(fresh);
    const after = [...regions(fresh)];
    after.forEach((each, number) => { each.scrollLeft = scrolled[number] || 0; });
    if (focused >= 0 && after[focused]) after[focused].focus({ preventScroll: true });
  };

  const refresh = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(location.pathname, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.title = page.title;
      parts.forEach((id) => replace(id, page));
      lastAnswer = new Date();
      notice.hidden = true;
      document.body.classList.remove("out-of-date");
    } catch {
      notice.querySelector("b").textContent = lastAnswer.toISOString().slice(0, 19).replace("T", " ") + "Z";
      notice.hidden = false;
      document.body.classList.add("out-of-date");
    }
  };

  // The first page may be a minute old, if nobody had asked for it lately.
  setTimeout(refresh, 2000);
  setInterval(refresh, 1000 * Number(document.body.dataset.refresh));
  document.addEventListener("visibilitychange", refresh);
})();
