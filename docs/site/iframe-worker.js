// Search runs in a worker, and browsers start none from the file system. There, a hidden frame takes its place.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.frame = frame;
      this.inner = frame.contentWindow;
      this.receive = (event) => {
        if (event.source !== this.inner) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        this.onmessage?.(message);
      };
      addEventListener("message", this.receive);
      // What the worker posts goes to the page; what is posted before its script has run waits for it.
      this.ready = new Promise((resolve) => {
        const page = frame.contentDocument;
        const bridge = page.createElement("script");
        bridge.textContent = "var postMessage = (data) => parent.postMessage(data, '*');";
        const script = page.createElement("script");
        script.src = url;
        script.onload = resolve;
        page.body.append(bridge, script);
      });
    }

    postMessage(data) {
      this.ready.then(() => {
        // Calls `onmessage` of the worker too.
        this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data }));
      });
    }

    terminate() {
      removeEventListener("message", this.receive);
      this.frame.remove();
    }
  };
}
