package cli

import (
	"io"
	"iter"

	"github.com/go-json-experiment/json"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/client"
)

// printEvents prints a job's output as it comes, each stream to its own; or, raw, every event as a line of JSON.
func (t *tool) printEvents(events iter.Seq2[api.Event, error], raw bool) error {
	show := t.printOutput
	if raw {
		show = t.printEvent
	}
	for event, err := range events {
		if err != nil {
			return err
		}
		if err := show(event); err != nil {
			return err
		}
	}
	return nil
}

func (t *tool) printOutput(e api.Event) error {
	var to io.Writer
	switch e.Type {
	case "stdout":
		to = t.Stdout
	case "stderr":
		to = t.Stderr
	default:
		return nil
	}
	data, err := client.Output(e)
	if err != nil {
		return err
	}
	_, err = to.Write(data)
	return err
}

func (t *tool) printEvent(e api.Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = t.Stdout.Write(append(line, '\n'))
	return err
}
