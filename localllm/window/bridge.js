// What the page has in the window of `localllm app` and not in a browser: files are saved where the user says, by the
// system's dialog. The window runs this in each page of its server.

(() => {
  const { pywebview } = window;
  // The page's policy forbids the `new Function` by which pywebview makes an API of its own.
  pywebview._returnValuesCallbacks._save ??= {};
  window.localllmWindow = Object.freeze({
    /** @param {string} name @param {string} text @returns {Promise<boolean>} whether it was saved */
    save: (name, text) => new Promise((resolve, reject) => {
      const id = crypto.randomUUID();
      pywebview._checkValue("_save", resolve, reject, id);
      pywebview._jsApiCallback("_save", [name, text], id);
    }),
  });
})();
